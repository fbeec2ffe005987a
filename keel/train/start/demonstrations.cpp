#include "keel/train/start/demonstrations.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "keel/core/error.h"
#include "keel/task/task_table.h"
#include "keel/train/start/prompt_sources.h"

namespace keel {
namespace {

/// Returns the stop tokens, with the tokenizer's EOS token first.
std::vector<int32_t> stop_ids_eos_first(const LoadedModel& policy) {
  std::vector<int32_t> ids = policy.stop_ids;
  if (ids.empty())
    fail(ExitCode::kBadConfiguration, "sft.files: the model has no stop token, so it could not learn to end a ",
         "completion; set eos_token_id in its generation_config.json");
  const auto eos =
      policy.tokenizer.eos_id() ? std::find(ids.begin(), ids.end(), *policy.tokenizer.eos_id()) : ids.end();
  if (eos != ids.end()) std::iter_swap(ids.begin(), eos);
  return ids;
}

SupervisedSequence encode_demonstration(const Demonstration& demonstration, const LoadedModel& policy,
                                        const TemplateVariables& variables) {
  SupervisedSequence sequence{.tokens = prompt_tokens(policy, demonstration.problem.prompt, variables), .trained = {}};
  sequence.trained.resize(sequence.tokens.size(), 0);
  const std::vector<int32_t> completion =
      encode_completion(policy.tokenizer, demonstration.completion, policy.stop_ids.front());
  sequence.tokens.insert(sequence.tokens.end(), completion.begin(), completion.end());
  sequence.trained.resize(sequence.tokens.size(), 1);
  return sequence;
}

/// Combines the files of section sft with the rendering and order of section data.
DataOptions sft_data_options(const Config& config, int64_t max_row_tokens) {
  DataOptions options = config.data;
  static_cast<RowFiles&>(options) = config.sft;
  options.source_key = "";
  options.max_prompt_tokens = max_row_tokens;
  return options;
}

LossOn parse_loss_on(const std::string& name) {
  return name == "all" ? LossOn::kAll : name == "completion" ? LossOn::kCompletion : LossOn::kAssistant;
}

}  // namespace

Demonstrations::Demonstrations(const Config& config, const LoadedModel& policy)
    : batch_(config.sft.batch), data_epochs_(config.sft.data_epochs), held_out_fraction_(config.sft.held_out) {
  if (!config.sft.has_steps()) return;
  if (config.sft.files.empty()) {
    demonstrate_ = [task = std::shared_ptr<const Task>(make_task(config.task)), policy, seed = config.run.seed,
                    variables = template_variables(config.data)](uint64_t index, bool noisy) {
      return encode_demonstration(task->demonstrate(seed, index, noisy), policy, variables);
    };
    return;
  }
  const int64_t positions = policy.model.config().max_position_embeddings, max_tokens = config.sft.max_tokens;
  const bool by_setting = max_tokens > 0 && max_tokens <= positions;
  max_row_tokens_ = by_setting ? max_tokens : positions;
  max_row_tokens_source_ = by_setting ? "sft.max_tokens" : "the model's max_position_embeddings";
  const DataOptions options = sft_data_options(config, max_row_tokens_);
  const SupervisedRows rows(RowPrompts(PromptEncoder(policy.tokenizer, policy.templates), options, "sft"),
                            stop_ids_eos_first(policy), parse_loss_on(config.sft.loss_on));
  files_ = open_supervised(options, config.run.seed, rows, max_row_tokens_source_);
}

std::vector<SupervisedSequence> Demonstrations::next(SftState& state) {
  std::vector<SupervisedSequence> sequences;
  if (files_) {
    const int64_t remaining = data_epochs_ ? planned_rows() - state.rows : batch_;
    files_->train.seek(state.position);
    for (SupervisedRow& row : files_->train.next(std::min(batch_, remaining))) {
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
  files_->train.rewind({});
  if (!files_->held_out || !files_->held_out->next(1).empty()) return;
  const std::string skipped = describe_skipped(files_->held_out->skipped());
  if (files_->eval_files)
    fail(ExitCode::kBadInput, "sft.eval_files: all rows to measure the loss on were skipped: ", skipped);
  fail(ExitCode::kBadInput, "sft.held_out keeps none of the ", files_->identity.rows, " rows to measure the loss on",
       skipped.empty() ? "" : " (", skipped, skipped.empty() ? "" : ")",
       "; raise it, set sft.eval_files, or remove it");
}

const RowStream<SupervisedRow>::Survey& Demonstrations::survey() const {
  if (!survey_) survey_ = files_->train.survey();
  return *survey_;
}

SkippedCounts Demonstrations::skipped() const {
  if (!files_) return {};
  return survey_ ? survey_->skipped : files_->train.skipped();
}

int64_t round_up_epochs(double count) {
  constexpr double kRounding = 1e-9;
  return std::max<int64_t>(static_cast<int64_t>(std::ceil(count - kRounding)), 1);
}

int64_t Demonstrations::planned_rows() const {
  return round_up_epochs(*data_epochs_ * static_cast<double>(rows_per_epoch()));
}

int64_t Demonstrations::planned_steps(const SftState& state) const {
  const int64_t remaining = std::max<int64_t>(planned_rows() - state.rows, 0);
  return state.steps + (remaining + batch_ - 1) / batch_;
}

/// Skipped rows are not counted with data_epochs, since all rows were read before.
double Demonstrations::epochs(const SftState& state) const {
  if (data_epochs_) return static_cast<double>(state.rows) / static_cast<double>(rows_per_epoch());
  return static_cast<double>(state.position) / static_cast<double>(files_->identity.rows);
}

SftSizes Demonstrations::sizes() const {
  constexpr int64_t kSample = 1000;
  const int64_t max_train = std::min<int64_t>(kSample, static_cast<int64_t>(files_->identity.rows));  // no row twice
  SftSizes sizes;
  const auto mean = [&](RowStream<SupervisedRow> rows, double& count, int64_t max_rows) {
    rows.rewind({});
    double tokens = 0;
    count = 0;
    try {
      for (; count < static_cast<double>(max_rows); ++count) {
        const std::vector<SupervisedRow> row = rows.next(1);
        if (row.empty()) break;
        for (const SupervisedSequence& sequence : row[0].sequences) {
          tokens += static_cast<double>(sequence.tokens.size());
          sizes.longest_row = std::max(sizes.longest_row, static_cast<int64_t>(sequence.tokens.size()));
        }
      }
    } catch (const Error&) {  // with data.bad_rows=stop_late, the update that needs this row reports it
    }
    return count == 0 ? 0 : tokens / count;
  };
  sizes.mean_rows_per_update = sizes.max_rows_per_update = static_cast<double>(batch_);
  if (data_epochs_) {
    const int64_t total_rows = planned_rows(), updates = (total_rows + batch_ - 1) / batch_;
    sizes.max_rows_per_update = static_cast<double>(std::min(batch_, total_rows));
    sizes.mean_rows_per_update = static_cast<double>(total_rows) / static_cast<double>(updates);
  }
  double count = 0;
  sizes.mean_tokens_per_row = mean(files_->train, count, max_train);
  if (!files_->held_out) return sizes;
  const double mean_tokens = mean(*files_->held_out, count, kSample);
  if (count == kSample)  // there are more
    count = files_->eval_files ? static_cast<double>(files_->eval_files->rows())
                               : held_out_fraction_ * static_cast<double>(files_->identity.rows);
  sizes.held_out_tokens = mean_tokens * count;
  return sizes;
}

const std::vector<std::string>& Demonstrations::notes() const {
  static const std::vector<std::string> none;
  return files_ ? files_->notes : none;
}

std::vector<std::string> Demonstrations::warnings() const {
  if (!files_ || !files_->misses_template) return {};
  return {
      "sft: prompts and completions are plain texts, so the model's chat template is not used; set data.chat=always to "
      "make them messages of user and assistant, or data.chat=never to keep them as they are"};
}

std::string Demonstrations::describe_skipped(const SkippedCounts& skipped) const {
  return skipped_rows_text(skipped, "row", max_row_tokens_source_ + ", " + std::to_string(max_row_tokens_));
}

}  // namespace keel
