#include "keel/train/metrics/token_records.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "keel/core/console.h"
#include "keel/core/random.h"
#include "keel/objective/regions/divergence.h"
#include "keel/train/metrics/sample_recorder.h"

namespace keel {
namespace {

constexpr size_t kRowsPerWrite = 65'536;                                    // about 15 MB
constexpr size_t kMaxPromptBytes = 2000, kMaxTotalPromptBytes = 1'000'000;  // per file

/// Samples without replacement.
std::vector<int64_t> sample_rollouts(std::vector<int64_t> from, const RecordSelection& selection, int64_t step) {
  const size_t count = std::min(from.size(), static_cast<size_t>(selection.rollouts.value_or(std::ssize(from))));
  if (count == from.size()) return from;
  RandomSequence draws(selection.seed, Stream::kTokenRecords, static_cast<uint64_t>(step));
  for (size_t i = 0; i < count; ++i) std::swap(from[i], from[i + draws.below(static_cast<uint32_t>(from.size() - i))]);
  from.resize(count);
  return from;
}

/// Returns a recorded value, or kUnknown if the method does not record this column.
float value_or_unknown(const std::vector<float>& values, int64_t target) {
  return values.empty() ? TokenRow::kUnknown : values[static_cast<size_t>(target)];
}

/// The decisions on a chunk of an update, copied to the host at once.
class Decisions {
 public:
  explicit Decisions(const TokenUpdate& update) {
    const at::NoGradGuard no_grad;
    const LossInputs& inputs = update.loss_inputs;
    add(&TokenRow::log_pi, inputs.logp);
    add(&TokenRow::log_other_pi, update.stats.other_logp);
    if (inputs.topk_logp.defined()) {
      const TopKLogProbs topk{inputs.topk_behavior_logp, inputs.topk_logp, inputs.behavior_logp, inputs.logp,
                              inputs.sampled_in_topk,    inputs.choices};
      add(&TokenRow::topk_tv, topk_tv(topk));
      add(&TokenRow::topk_kl, topk_kl(topk));
      add(&TokenRow::topk_tv_replace_last, topk_tv(topk, TopKSupport::kReplaceLast));
      add(&TokenRow::topk_kl_replace_last, topk_kl(topk, TopKSupport::kReplaceLast));
    }
    add(&TokenRow::full_tv, update.stats.full_tv);
    add(&TokenRow::full_kl, update.stats.full_kl);
    add(&TokenRow::divergence, update.decision.divergence);
    add(&TokenRow::threshold, update.decision.threshold);
    add(&TokenRow::ratio, probability_ratio(inputs.logp, inputs.behavior_logp));
    add(&TokenRow::advantage, inputs.advantages);
    add(&TokenRow::coefficient, update.decision.coefficient);
    add(&TokenRow::weight, update.weights);
    add(&TokenRow::entropy, update.stats.entropy);
    add(&TokenRow::choices, inputs.choices);
    const Tensor masked = update.decision.keep.logical_not();
    values_.push_back(masked.to(at::kFloat));
    values_.push_back((update.decision.outside.defined() ? update.decision.outside : masked).to(at::kFloat));
    host_values_ = at::stack(values_).cpu();
    values_.clear();
  }

  TokenRow row(int64_t i) const {
    const float* value = host_values_.const_data_ptr<float>() + i;
    const int64_t tokens = host_values_.size(1);
    TokenRow row;
    for (const auto member : members_) row.*member = *value, value += tokens;
    row.kept = value[0] == 0;
    row.outside = value[tokens] != 0;
    return row;
  }

 private:
  void add(float TokenRow::*member, const Tensor& values) {
    if (!values.defined()) return;
    members_.push_back(member);
    values_.push_back(values.to(at::kFloat));
  }

  std::vector<float TokenRow::*> members_;
  std::vector<Tensor> values_;
  Tensor host_values_;  // [members + 2, tokens]
};

}  // namespace

TokenRecords::TokenRecords(std::filesystem::path folder, int64_t step, std::span<const Prompt> prompts,
                           std::span<const Rollout> rollouts, std::span<const std::optional<int64_t>> indices,
                           const RecordSelection& selection, const Tokenizer& tokenizer)
    : folder_(std::move(folder)),
      step_(step),
      prompts_(prompts),
      rollouts_(rollouts),
      tokenizer_(tokenizer),
      recorded_(rollouts.size()) {
  std::vector<int64_t> trained;
  for (const std::optional<int64_t>& index : indices)
    if (index) trained.push_back(*index);
  num_trained_ = std::ssize(trained);
  for (const int64_t rollout : sample_rollouts(std::move(trained), selection, step)) recorded_[rollout] = true;
}

void TokenRecords::add(const TokenUpdate& tokens, std::span<const int64_t> rollouts) {
  const PackedBatch& batch = tokens.batch;
  const int64_t begin = tokens.begin, end = begin + tokens.loss_inputs.logp.size(0);
  std::optional<Decisions> decisions;  // copied only if one of them is recorded
  int64_t first = 0;                   // target at which the sequence starts
  for (size_t s = 0; s < batch.sequences.size(); first += batch.lengths[s], ++s) {
    const int64_t rollout = rollouts[batch.sequences[s]];
    const int64_t from = std::max(first, begin), to = std::min(first + batch.lengths[s], end);
    if (from >= to || !recorded_[rollout]) continue;
    if (!decisions) decisions.emplace(tokens);
    const std::vector<int64_t> positions = rollouts_[rollout].tokens.trained_positions();
    for (int64_t target = from; target < to; ++target)
      add_row(rollout, target - first, positions[target - first], decisions->row(target - begin));
  }
}

/// Keeps the texts of one completion only: those of a whole step would take more memory than its rows.
const std::string& TokenRecords::text_of(int64_t rollout, int64_t position) {
  if (texts_rollout_ != rollout)
    texts_ = token_texts(prompts_[rollouts_[rollout].prompt], rollouts_[rollout], tokenizer_);
  texts_rollout_ = rollout;
  return texts_[position];
}

/// Adds a row, with the columns from sampling of the rollout's trained token `target`.
void TokenRecords::add_row(int64_t rollout, int64_t target, int64_t position, TokenRow row) {
  const Rollout& source = rollouts_[rollout];
  const TokenColumns& tokens = source.tokens;
  row.step = step_;
  row.update = update_;
  row.prompt = static_cast<int64_t>(prompts_[source.prompt].id);
  row.group = source.prompt;
  row.rollout = static_cast<int64_t>(source.id);
  row.policy_version = static_cast<int64_t>(source.policy_version);
  row.position = static_cast<int32_t>(position);
  row.token_id = tokens.ids[position];
  row.token = text_of(rollout, position);
  row.log_mu = tokens.behavior_logp[target];
  row.log_other_mu = value_or_unknown(tokens.behavior_other_logp, target);
  row.log_recomputed = value_or_unknown(tokens.recomputed_logp, target);
  row.log_other_recomputed = value_or_unknown(tokens.recomputed_other_logp, target);
  row.log_reference = value_or_unknown(tokens.reference_logp, target);
  row.entropy_mu = value_or_unknown(tokens.behavior_entropy, target);
  row.reward = source.reward;
  rows_.push_back(std::move(row));
  if (rows_.size() == kRowsPerWrite) write_rows();
}

void TokenRecords::write_rows() {
  try {
    if (!failure_ && !file_) file_ = std::make_unique<TokenFile>(folder_, step_);
    if (!failure_) file_->add(rows_);
    written_ += std::ssize(rows_);
  } catch (...) {
    failure_ = std::current_exception();
    file_.reset();
  }
  rows_.clear();
}

/// Returns the texts of the prompts with a recorded completion, by id. Long ones are shortened.
Json TokenRecords::prompts() const {
  std::set<int64_t> indices;
  for (size_t i = 0; i < recorded_.size(); ++i)
    if (recorded_[i]) indices.insert(rollouts_[i].prompt);
  Json texts = Json::object();
  for (const int64_t index : indices) {
    const Prompt& prompt = prompts_[index];
    const size_t max_bytes = std::min(kMaxPromptBytes, kMaxTotalPromptBytes / indices.size());
    texts.get_ref<Json::object_t&>().emplace_back(std::to_string(prompt.id),
                                                  escape_invalid_utf8(shorten(prompt.text, max_bytes)));
  }
  return texts;
}

void TokenRecords::commit(Json metadata) {
  write_rows();
  if (failure_) std::rethrow_exception(failure_);
  const int64_t recorded = std::ranges::count(recorded_, true);
  metadata["step"] = step_;
  metadata["updates"] = update_;
  metadata["rollouts"] = num_trained_;
  metadata["recorded_rollouts"] = recorded;
  metadata["rows"] = written_;
  metadata["whole_sequences"] = true;
  metadata["whole_batch"] = recorded == num_trained_;
  metadata["prompts"] = prompts();
  file_->commit(metadata);
}

}  // namespace keel
