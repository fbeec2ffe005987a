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

constexpr size_t kRowsAtOnce = 65'536;                        // some 15 MB of them
constexpr size_t kMaxPrompt = 2000, kMaxPrompts = 1'000'000;  // bytes of a prompt's text, and of all of a file

/// Draws so many of them, without repetition.
std::vector<int64_t> drawn(std::vector<int64_t> from, const RecordSelection& share, int64_t step) {
  const size_t count = std::min(from.size(), static_cast<size_t>(share.rollouts.value_or(std::ssize(from))));
  if (count == from.size()) return from;
  Draws draws(share.seed, Stream::kTokenRecords, static_cast<uint64_t>(step));
  for (size_t i = 0; i < count; ++i) std::swap(from[i], from[i + draws.below(static_cast<uint32_t>(from.size() - i))]);
  from.resize(count);
  return from;
}

/// A row's member as the rollout has it; unknown where the method asked for none.
float of_rollout(const std::vector<float>& values, int64_t target) {
  return values.empty() ? TokenRow::kUnknown : values[static_cast<size_t>(target)];
}

/// What was decided about a part of an update's tokens, brought to the host in one copy.
class Decisions {
 public:
  explicit Decisions(const TokenUpdate& t) {
    const at::NoGradGuard no_grad;
    const LossInputs& p = t.policy;
    add(&TokenRow::log_pi, p.logp);
    add(&TokenRow::log_other_pi, t.stats.other_logp);
    if (p.topk_logp.defined()) {
      const TopKLogProbs topk{p.topk_behavior_logp, p.topk_logp, p.behavior_logp, p.logp, p.sampled_in_topk};
      add(&TokenRow::topk_tv, topk_tv(topk));
      add(&TokenRow::topk_kl, topk_kl(topk));
      add(&TokenRow::topk_tv_replace_last, topk_tv(topk, TopKSupport::kReplaceLast));
      add(&TokenRow::topk_kl_replace_last, topk_kl(topk, TopKSupport::kReplaceLast));
    }
    add(&TokenRow::full_tv, t.stats.full_tv);
    add(&TokenRow::full_kl, t.stats.full_kl);
    add(&TokenRow::divergence, t.decision.divergence);
    add(&TokenRow::threshold, t.decision.threshold);
    add(&TokenRow::ratio, probability_ratio(p.logp, p.behavior_logp));
    add(&TokenRow::advantage, p.advantages);
    add(&TokenRow::coefficient, t.decision.coefficient);
    add(&TokenRow::weight, t.weights);
    add(&TokenRow::entropy, t.stats.entropy);
    const Tensor blocked = t.decision.keep.logical_not();
    values_.push_back(blocked.to(at::kFloat));
    values_.push_back((t.decision.outside.defined() ? t.decision.outside : blocked).to(at::kFloat));
    numbers_ = at::stack(values_).cpu();
    values_.clear();
  }

  TokenRow row(int64_t i) const {
    const float* of_token = numbers_.const_data_ptr<float>() + i;
    const int64_t tokens = numbers_.size(1);
    TokenRow row;
    for (const auto member : members_) row.*member = *of_token, of_token += tokens;
    row.kept = of_token[0] == 0;
    row.outside = of_token[tokens] != 0;
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
  Tensor numbers_;  // [members + 2, tokens]
};

}  // namespace

TokenRecords::TokenRecords(std::filesystem::path folder, int64_t step, std::span<const Prompt> prompts,
                           std::span<const Rollout> rollouts, std::span<const std::optional<int64_t>> places,
                           const RecordSelection& share, const Tokenizer& tokenizer)
    : folder_(std::move(folder)),
      step_(step),
      prompts_(prompts),
      rollouts_(rollouts),
      tokenizer_(tokenizer),
      recorded_(rollouts.size()) {
  std::vector<int64_t> learned;
  for (const std::optional<int64_t>& place : places)
    if (place) learned.push_back(*place);
  learned_from_ = std::ssize(learned);
  for (const int64_t rollout : drawn(std::move(learned), share, step)) recorded_[rollout] = true;
}

void TokenRecords::add(const TokenUpdate& tokens, std::span<const int64_t> rollouts) {
  const PackedBatch& batch = tokens.batch;
  const int64_t begin = tokens.begin, end = begin + tokens.policy.logp.size(0);
  std::optional<Decisions> decisions;  // copied where one of them is recorded
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

/// Of one completion at a time: those of a whole step would take more memory than its rows.
const std::string& TokenRecords::text_of(int64_t rollout, int64_t position) {
  if (rollout_of_texts_ != rollout)
    texts_ = token_texts(prompts_[rollouts_[rollout].prompt], rollouts_[rollout], tokenizer_);
  rollout_of_texts_ = rollout;
  return texts_[position];
}

/// With the columns that are known of the rollout's trained token `target` since it was sampled.
void TokenRecords::add_row(int64_t rollout, int64_t target, int64_t position, TokenRow row) {
  const Rollout& of = rollouts_[rollout];
  const TokenColumns& tokens = of.tokens;
  row.step = step_;
  row.update = update_;
  row.prompt = static_cast<int64_t>(prompts_[of.prompt].id);
  row.group = of.prompt;
  row.rollout = static_cast<int64_t>(of.id);
  row.policy_version = static_cast<int64_t>(of.policy_version);
  row.position = static_cast<int32_t>(position);
  row.token_id = tokens.ids[position];
  row.token = text_of(rollout, position);
  row.log_mu = tokens.behavior_logp[target];
  row.log_other_mu = of_rollout(tokens.behavior_other_logp, target);
  row.log_recomputed = of_rollout(tokens.recomputed_logp, target);
  row.log_other_recomputed = of_rollout(tokens.recomputed_other_logp, target);
  row.log_reference = of_rollout(tokens.reference_logp, target);
  row.entropy_mu = of_rollout(tokens.behavior_entropy, target);
  row.reward = of.reward;
  rows_.push_back(std::move(row));
  if (rows_.size() == kRowsAtOnce) write_rows();
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

/// The texts of those that have a completion recorded, by their ids; long ones are cut, and say so.
Json TokenRecords::prompts() const {
  std::set<int64_t> places;
  for (size_t i = 0; i < recorded_.size(); ++i)
    if (recorded_[i]) places.insert(rollouts_[i].prompt);
  Json texts = Json::object();
  for (const int64_t place : places) {
    const Prompt& prompt = prompts_[place];
    const size_t most = std::min(kMaxPrompt, kMaxPrompts / places.size());
    texts.get_ref<Json::object_t&>().emplace_back(std::to_string(prompt.id),
                                                  escape_invalid_utf8(shorten(prompt.text, most)));
  }
  return texts;
}

void TokenRecords::commit(Json facts) {
  write_rows();
  if (failure_) std::rethrow_exception(failure_);
  const int64_t recorded = std::ranges::count(recorded_, true);
  facts["step"] = step_;
  facts["updates"] = update_;
  facts["rollouts"] = learned_from_;
  facts["recorded_rollouts"] = recorded;
  facts["rows"] = written_;
  facts["whole_sequences"] = true;
  facts["whole_batch"] = recorded == learned_from_;
  facts["prompts"] = prompts();
  file_->commit(facts);
}

}  // namespace keel
