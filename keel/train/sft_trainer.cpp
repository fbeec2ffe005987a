#include "keel/train/sft_trainer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "keel/core/interrupt.h"
#include "keel/train/start/starting_model.h"
#include "keel/train/update/gradients.h"
#include "keel/train/update/packing.h"

namespace keel {
namespace {

constexpr double kAverageDecay = 0.95;

double noisy_lr(const SftOptions& options, int64_t noisy_step) {
  const double progress =
      options.noisy_steps > 1 ? static_cast<double>(noisy_step) / static_cast<double>(options.noisy_steps - 1) : 0;
  return options.noisy_lr[0] + (options.noisy_lr[1] - options.noisy_lr[0]) * progress;
}

/// The completion is the span from the first to the last target; tokens between targets are context without loss.
TrainingSequence training_sequence(const SupervisedSequence& sequence, int64_t id) {
  const auto first = std::find(sequence.trained.begin(), sequence.trained.end(), 1) - sequence.trained.begin();
  const auto end = sequence.trained.rend() - std::find(sequence.trained.rbegin(), sequence.trained.rend(), 1);
  const auto begin = static_cast<size_t>(first), count = static_cast<size_t>(end - first);
  const std::span tokens(sequence.tokens);
  return {.prompt = tokens.first(begin),
          .completion = tokens.subspan(begin, count),
          .prompt_id = id,
          .id = id,
          .loss_mask = std::span(sequence.trained).subspan(begin, count)};
}

std::vector<TrainingSequence> training_sequences(const std::vector<SupervisedSequence>& sequences) {
  std::vector<TrainingSequence> result;
  for (size_t i = 0; i < sequences.size(); ++i)
    result.push_back(training_sequence(sequences[i], static_cast<int64_t>(i)));
  return result;
}

int64_t target_count(const std::vector<SupervisedSequence>& sequences) {
  int64_t count = 0;
  for (const SupervisedSequence& sequence : sequences) count += sequence.trained_count();
  return count;
}

/// Accumulates the gradients of the mean log-likelihood in the weights' sinks; returns the negative log-likelihood.
double accumulate_likelihood_gradients(const CausalLm& model, const std::vector<SupervisedSequence>& sequences,
                                       int64_t targets, int64_t tokens_per_batch, const UpdateOptions& options) {
  Tensor negative_logp = at::zeros({}, at::TensorOptions(at::kDouble).device(model.device()));
  for (const PackedBatch& batch : pack(training_sequences(sequences), tokens_per_batch, model.device())) {
    const auto coefficients = [&](const TokenStats& stats, int64_t, int64_t) -> HeadCoefficients {
      negative_logp -= stats.logp.sum(at::kDouble);
      return {.coefficient = at::full_like(stats.logp, 1.0 / static_cast<double>(targets)), .entropy_coefficient = {}};
    };
    accumulate_gradients(model, batch, options, Scope::kToken, coefficients);
  }
  return negative_logp.item<double>() / static_cast<double>(targets);
}

}  // namespace

SftTrainer::SftTrainer(const Config& config, const LoadedModel& policy, const MasterWeights& masters,
                       Demonstrations& demonstrations)
    : config_(config),
      network_(policy.model, execution_options(config)),
      demonstrations_(demonstrations),
      options_(config.sft_optimizer()),
      optimizer_(masters, config.sft_optimizer()) {}

/// Files follow the schedule; a task has a constant rate, and another one for noisy demonstrations.
double SftTrainer::learning_rate(const TrainState& state) const {
  if (state.sft.noisy) return noisy_lr(config_.sft, state.sft.noisy_steps);
  if (!demonstrations_.from_files()) return options_.lr;
  return options_.lr_at(state.sft.steps, static_cast<double>(config_.sft.steps));
}

SftMetrics SftTrainer::step(const std::vector<SupervisedSequence>& sequences, TrainState& state, StepWatcher& watcher) {
  SftMetrics metrics{.lr = learning_rate(state), .noisy = state.sft.noisy};
  const UpdateOptions options{.dropout = next_dropout(config_, state),
                              .loss_scale = optimizer_.loss_scale().value_or(1)};
  const int64_t targets = target_count(sequences);
  metrics.loss = accumulate_likelihood_gradients(network_, sequences, targets, config_.train.tokens_per_batch, options);
  if (demonstrations_.from_files()) metrics.files = {.tokens = targets, .epochs = demonstrations_.epochs(state.sft)};
  const Optimizer::Outcome outcome = optimizer_.step(metrics.lr);
  state.updates += outcome.skipped ? 0 : 1;
  state.count_update(outcome.skipped, outcome.overflowed);
  if (outcome.skipped) watcher.on_skipped_update(outcome.overflowed);

  GradientNorms norms;
  norms.add(outcome);
  metrics.gradients = norms.metrics();
  metrics.loss_scale = optimizer_.loss_scale();
  metrics.skipped_updates = state.skipped;
  if (!outcome.skipped)  // a NaN loss would stay in the average
    state.sft.loss_average = state.sft.loss_average
                                 ? kAverageDecay * *state.sft.loss_average + (1 - kAverageDecay) * metrics.loss
                                 : metrics.loss;
  metrics.loss_average = state.sft.loss_average.value_or(metrics.loss);
  state.sft.steps++;
  state.sft.noisy_steps += state.sft.noisy ? 1 : 0;
  return metrics;
}

std::optional<SftEvalLoss> SftTrainer::held_out_loss() {
  constexpr int64_t kRowsPerBatch = 64;
  RowStream<SupervisedRow>* rows = demonstrations_.held_out();
  if (rows == nullptr) return std::nullopt;
  rows->rewind({});
  SftEvalLoss result;
  double negative_logp = 0;
  while (true) {
    std::vector<SupervisedSequence> sequences;
    const std::vector<SupervisedRow> batch_rows = rows->next(kRowsPerBatch);
    if (batch_rows.empty()) break;
    for (const SupervisedRow& row : batch_rows)
      sequences.insert(sequences.end(), row.sequences.begin(), row.sequences.end());
    for (const PackedBatch& batch :
         pack(training_sequences(sequences), config_.train.tokens_per_batch, network_.device())) {
      throw_if_stopped();
      negative_logp -= token_statistics(network_, batch, /*temperature=*/1.0).logp.sum(at::kDouble).item<double>();
    }
    result.rows += static_cast<int64_t>(batch_rows.size());
    result.tokens += target_count(sequences);
  }
  if (result.tokens == 0) return std::nullopt;
  result.loss = negative_logp / static_cast<double>(result.tokens);
  return result;
}

std::optional<std::string> SftTrainer::maybe_switch_to_noisy(TrainState& state) const {
  const SftOptions& options = config_.sft;
  if (demonstrations_.from_files()) return std::nullopt;
  const double loss = state.sft.loss_average.value_or(std::numeric_limits<double>::infinity());
  const bool reached_loss = loss < options.stop_loss;
  const bool used_up = state.sft.steps >= options.steps - options.noisy_steps;
  if (state.sft.noisy || !(reached_loss || used_up)) return std::nullopt;
  state.sft.noisy = true;
  if (options.stop_loss <= 0 || reached_loss) return std::nullopt;
  return "the SFT loss is " + std::to_string(loss) + " after all clean demonstrations, above sft.stop_loss " +
         std::to_string(options.stop_loss) + ", so RL may not improve the reward. Raise sft.steps";
}

}  // namespace keel
