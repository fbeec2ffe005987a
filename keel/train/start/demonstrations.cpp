#include "keel/train/start/demonstrations.h"

#include <algorithm>
#include <cmath>

#include "keel/core/error.h"
#include "keel/task/task_table.h"
#include "keel/train/start/task_prompts.h"

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

/// Section data says how rows are rendered and ordered, section sft which they are.
DataOptions data_options(const Config& config, int64_t limit) {
  DataOptions options = config.data;
  options.files = config.sft.files;
  options.eval_files = config.sft.eval_files;
  options.held_out = config.sft.held_out;
  options.prompt_key = config.sft.prompt_key;
  options.answer_key = config.sft.completion_key;
  options.source_key = "";
  options.max_prompt_tokens = limit;
  return options;
}

}  // namespace

Demonstrations::Demonstrations(const Config& config, const LoadedModel& policy) {
  if (!config.sft.has_steps()) return;
  if (config.sft.files.empty()) {
    task_ = make_task(config.task);
    return;
  }
  const int64_t positions = policy.model.config().max_position_embeddings, wanted = config.sft.max_tokens;
  const bool by_setting = wanted > 0 && wanted <= positions;
  limit_ = by_setting ? wanted : positions;
  limit_name_ = by_setting ? "sft.max_tokens" : "what the model has positions for (max_position_embeddings)";
  const DataOptions options = data_options(config, limit_);
  const SupervisedRows rows(RowPrompts(PromptEncoder(policy.tokenizer, policy.templates), options), stop_ids_of(policy),
                            config.sft.loss_on == "all" ? LossOn::kAll : LossOn::kAssistant);
  files_ = open_supervised(options, config.run.seed, rows, limit_name_);
}

std::vector<SupervisedSequence> Demonstrations::next(const Config& config, const LoadedModel& policy,
                                                     TrainState& state) {
  const int64_t batch = config.sft.batch;
  std::vector<SupervisedSequence> sequences;
  if (files_) {
    const int64_t left = config.sft.data_epochs ? planned_rows(*config.sft.data_epochs) - state.sft_rows : batch;
    files_->train.seek(state.sft_position);
    for (SupervisedRow& row : files_->train.next(std::min(batch, left))) {
      std::move(row.sequences.begin(), row.sequences.end(), std::back_inserter(sequences));
      state.sft_rows++;
    }
    state.sft_position = files_->train.position();
    return sequences;
  }
  for (int64_t i = 0; i < batch; ++i) {
    const uint64_t index = static_cast<uint64_t>(state.sft_steps * batch + i);
    const Demonstration shown = task_->demonstrate(config.run.seed, index, state.noisy);
    SupervisedSequence sequence{.tokens = prompt_tokens(policy, shown.problem.prompt, config.data.date), .trained = {}};
    sequence.trained.resize(sequence.tokens.size(), 0);
    const std::vector<int32_t> said = encode_completion(policy.tokenizer, shown.completion, policy.stop_ids.front());
    sequence.tokens.insert(sequence.tokens.end(), said.begin(), said.end());
    sequence.trained.resize(sequence.tokens.size(), 1);
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

bool Demonstrations::done(const SftOptions& options, const TrainState& state) const {
  if (files_ && options.data_epochs) return state.sft_rows >= planned_rows(*options.data_epochs);
  return state.sft_steps >= options.steps || (state.noisy && state.noisy_steps >= options.noisy_steps);
}

void Demonstrations::require_rows() {
  if (!files_) return;
  files_->train.next(1);
  files_->train.go_back_to({});
  if (!files_->eval_files) return;
  if (files_->held_out->next(1).empty())
    fail(ExitCode::kBadInput,
         "sft.eval_files: there is nothing to measure the loss on: ", left_out_sentence(files_->held_out->skipped()));
}

uint64_t Demonstrations::rows_per_pass() const {
  if (!rows_per_pass_) rows_per_pass_ = files_->train.count_in_pass();
  return *rows_per_pass_;
}

int64_t Demonstrations::planned_rows(double passes) const {
  constexpr double kRounding = 1e-9;  // 0.1 of 30 rows are 3
  return std::max<int64_t>(static_cast<int64_t>(std::ceil(passes * static_cast<double>(rows_per_pass()) - kRounding)),
                           1);
}

int64_t Demonstrations::steps_of(double passes, int64_t batch) const {
  return (planned_rows(passes) + batch - 1) / batch;
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

std::string Demonstrations::left_out_sentence(const SkippedCounts& skipped) const {
  const auto counted = [](uint64_t count) {
    return std::to_string(count) + (count == 1 ? " row" : " rows") + " left out: ";
  };
  std::string text;
  if (skipped.too_long > 0)
    text = counted(skipped.too_long) + "longer than " + limit_name_ + ", " + std::to_string(limit_);
  if (skipped.bad > 0) text += (text.empty() ? "" : "; ") + counted(skipped.bad) + "bad (data.bad_rows: skip)";
  return text;
}

}  // namespace keel
