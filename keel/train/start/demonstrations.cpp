#include "keel/train/start/demonstrations.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "keel/core/error.h"
#include "keel/task/task_table.h"
#include "keel/train/start/prompt_sources.h"

namespace keel {
namespace {

/// What ends a completion, the tokenizer's own end of a sequence before all others.
std::vector<int32_t> stop_ids_of(const LoadedModel& policy) {
  std::vector<int32_t> ids = policy.stop_ids;
  if (ids.empty())
    fail(ExitCode::kBadConfiguration, "sft.files: the model has no stop token, so that it could not learn where a ",
         "completion ends; name one in its generation_config.json (eos_token_id)");
  const auto own =
      policy.tokenizer.eos_id() ? std::find(ids.begin(), ids.end(), *policy.tokenizer.eos_id()) : ids.end();
  if (own != ids.end()) std::iter_swap(ids.begin(), own);
  return ids;
}

SupervisedSequence sequence_of(const Demonstration& shown, const LoadedModel& policy, const TemplateVariables& words) {
  SupervisedSequence sequence{.tokens = prompt_tokens(policy, shown.problem.prompt, words), .trained = {}};
  sequence.trained.resize(sequence.tokens.size(), 0);
  const std::vector<int32_t> said = encode_completion(policy.tokenizer, shown.completion, policy.stop_ids.front());
  sequence.tokens.insert(sequence.tokens.end(), said.begin(), said.end());
  sequence.trained.resize(sequence.tokens.size(), 1);
  return sequence;
}

/// Section data says how rows are rendered and ordered, section sft which they are.
DataOptions data_options(const Config& config, int64_t limit) {
  DataOptions options = config.data;
  static_cast<RowFiles&>(options) = config.sft;
  options.source_key = "";
  options.max_prompt_tokens = limit;
  return options;
}

LossOn loss_on(const std::string& word) {
  return word == "all" ? LossOn::kAll : word == "completion" ? LossOn::kCompletion : LossOn::kAssistant;
}

}  // namespace

Demonstrations::Demonstrations(const Config& config, const LoadedModel& policy)
    : batch_(config.sft.batch), data_epochs_(config.sft.data_epochs), held_out_share_(config.sft.held_out) {
  if (!config.sft.has_steps()) return;
  if (config.sft.files.empty()) {
    demonstrate_ = [task = std::shared_ptr<const Task>(make_task(config.task)), policy, seed = config.run.seed,
                    words = words_of(config.data)](uint64_t index, bool noisy) {
      return sequence_of(task->demonstrate(seed, index, noisy), policy, words);
    };
    return;
  }
  const int64_t positions = policy.model.config().max_position_embeddings, wanted = config.sft.max_tokens;
  const bool by_setting = wanted > 0 && wanted <= positions;
  limit_ = by_setting ? wanted : positions;
  limit_name_ = by_setting ? "sft.max_tokens" : "what the model has positions for (max_position_embeddings)";
  const DataOptions options = data_options(config, limit_);
  const SupervisedRows rows(RowPrompts(PromptEncoder(policy.tokenizer, policy.templates), options, "sft"),
                            stop_ids_of(policy), loss_on(config.sft.loss_on));
  files_ = open_supervised(options, config.run.seed, rows, limit_name_);
}

std::vector<SupervisedSequence> Demonstrations::next(SftState& state) {
  std::vector<SupervisedSequence> sequences;
  if (files_) {
    const int64_t left = data_epochs_ ? planned_rows() - state.rows : batch_;
    files_->train.seek(state.position);
    for (SupervisedRow& row : files_->train.next(std::min(batch_, left))) {
      std::move(row.sequences.begin(), row.sequences.end(), std::back_inserter(sequences));
      state.rows++;
    }
    state.position = files_->train.position();
    return sequences;
  }
  for (int64_t i = 0; i < batch_; ++i)
    sequences.push_back(demonstrate_(static_cast<uint64_t>(state.steps * batch_ + i), state.noisy));
  return sequences;
}

bool Demonstrations::done(const SftOptions& options, const SftState& state) const {
  if (files_ && data_epochs_) return state.rows >= planned_rows();
  return state.steps >= options.steps || (state.noisy && state.noisy_steps >= options.noisy_steps);
}

void Demonstrations::require_rows() {
  if (!files_) return;
  files_->train.next(1);
  files_->train.go_back_to({});
  if (!files_->held_out || !files_->held_out->next(1).empty()) return;
  const std::string left_out = describe_skipped(files_->held_out->skipped());
  if (files_->eval_files)
    fail(ExitCode::kBadInput, "sft.eval_files: there is nothing to measure the loss on: ", left_out);
  fail(ExitCode::kBadInput, "sft.held_out keeps none of the ", files_->identity.rows, " rows to measure the loss on",
       left_out.empty() ? "" : " (", left_out, left_out.empty() ? "" : ")",
       "; raise it, name sft.eval_files in its place, or drop it");
}

const RowStream<SupervisedRow>::Survey& Demonstrations::survey() const {
  if (!survey_) survey_ = files_->train.survey();
  return *survey_;
}

SkippedCounts Demonstrations::skipped() const {
  if (!files_) return {};
  return survey_ ? survey_->skipped : files_->train.skipped();
}

int64_t round_up_epochs(double exact) {
  constexpr double kRounding = 1e-9;
  return std::max<int64_t>(static_cast<int64_t>(std::ceil(exact - kRounding)), 1);
}

int64_t Demonstrations::planned_rows() const {
  return round_up_epochs(*data_epochs_ * static_cast<double>(rows_per_epoch()));
}

int64_t Demonstrations::planned_steps(const SftState& state) const {
  const int64_t left = std::max<int64_t>(planned_rows() - state.rows, 0);
  return state.steps + (left + batch_ - 1) / batch_;
}

/// Without the rows that are left out, where it is known which these are.
double Demonstrations::passes(const SftState& state) const {
  if (data_epochs_) return static_cast<double>(state.rows) / static_cast<double>(rows_per_epoch());
  return static_cast<double>(state.position) / static_cast<double>(files_->identity.rows);
}

RowLengths Demonstrations::lengths() {
  constexpr int64_t kRows = 1000;
  const int64_t few = std::min<int64_t>(kRows, static_cast<int64_t>(files_->identity.rows));  // no row many times
  const auto mean = [&](RowStream<SupervisedRow>& rows, double& count, int64_t most) {
    rows.go_back_to({});
    const std::vector<SupervisedRow> some = rows.next(most);
    rows.go_back_to({});
    double tokens = 0;
    for (const SupervisedRow& row : some)
      for (const SupervisedSequence& sequence : row.sequences) tokens += static_cast<double>(sequence.tokens.size());
    count = static_cast<double>(some.size());
    return some.empty() ? 0 : tokens / count;
  };
  RowLengths lengths;
  lengths.mean_rows_per_update = lengths.max_rows_per_update = static_cast<double>(batch_);
  if (data_epochs_) {
    const int64_t rows_in_all = planned_rows(), updates = (rows_in_all + batch_ - 1) / batch_;
    lengths.max_rows_per_update = static_cast<double>(std::min(batch_, rows_in_all));
    lengths.mean_rows_per_update = static_cast<double>(rows_in_all) / static_cast<double>(updates);
  }
  double count = 0;
  lengths.mean_tokens_per_row = mean(files_->train, count, few);
  if (!files_->held_out) return lengths;
  const double kept = mean(*files_->held_out, count, kRows);
  if (count == kRows)  // and more
    count = files_->eval_files ? static_cast<double>(files_->eval_files->rows())
                               : held_out_share_ * static_cast<double>(files_->identity.rows);
  lengths.held_out_tokens = kept * count;
  return lengths;
}

const std::vector<std::string>& Demonstrations::notes() const {
  static const std::vector<std::string> none;
  return files_ ? files_->notes : none;
}

std::vector<std::string> Demonstrations::warnings() const {
  if (!files_ || !files_->misses_template) return {};
  return {
      "sft: prompts and completions are texts, which are learned as they are, without the chat template that the model "
      "has; data.chat=always makes them the user's and the assistant's messages, data.chat=never says that this is "
      "meant"};
}

std::string Demonstrations::describe_skipped(const SkippedCounts& skipped) const {
  return skipped_rows_text(skipped, "row", limit_name_ + ", " + std::to_string(limit_));
}

}  // namespace keel
