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
  const double share =
      options.noisy_steps > 1 ? static_cast<double>(noisy_step) / static_cast<double>(options.noisy_steps - 1) : 0;
  return options.noisy_lr[0] + (options.noisy_lr[1] - options.noisy_lr[0]) * share;
}

/// From the first target to the last; what lies between two of them is seen, and not learned.
TrainingSequence training_sequence(const SupervisedSequence& sequence, int64_t id) {
  const auto first = std::find(sequence.trained.begin(), sequence.trained.end(), 1) - sequence.trained.begin();
  const auto behind = sequence.trained.rend() - std::find(sequence.trained.rbegin(), sequence.trained.rend(), 1);
  const auto begin = static_cast<size_t>(first), count = static_cast<size_t>(behind - first);
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

/// Adds the gradients of the mean log-likelihood to the weights' sinks; returns the loss.
double accumulate_likelihood_gradients(const CausalLm& model, const std::vector<SupervisedSequence>& sequences,
                                       int64_t targets, int64_t tokens_per_batch, const UpdateOptions& pass) {
  Tensor negative_logp = at::zeros({}, at::TensorOptions(at::kDouble).device(model.device()));
  for (const PackedBatch& batch : pack(training_sequences(sequences), tokens_per_batch, model.device())) {
    const auto coefficients = [&](const TokenStats& stats, int64_t, int64_t) -> HeadCoefficients {
      negative_logp -= stats.logp.sum(at::kDouble);
      return {.coefficient = at::full_like(stats.logp, 1.0 / static_cast<double>(targets)), .entropy_coefficient = {}};
    };
    accumulate_gradients(model, batch, pass, Scope::kToken, coefficients);
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

/// Of files along its schedule; a task's are learned from until it is enough.
double SftTrainer::learning_rate(const TrainState& state) const {
  if (state.sft.noisy) return noisy_lr(config_.sft, state.sft.noisy_steps);
  if (!demonstrations_.from_files()) return options_.lr;
  return options_.lr_at(state.sft.steps, static_cast<double>(config_.sft.steps));
}

SftMetrics SftTrainer::step(const std::vector<SupervisedSequence>& sequences, TrainState& state, StepWatcher& watcher) {
  SftMetrics metrics{.lr = learning_rate(state), .noisy = state.sft.noisy};
  const UpdateOptions pass{.dropout = next_dropout(config_, state), .loss_scale = optimizer_.loss_scale().value_or(1)};
  const int64_t targets = target_count(sequences);
  metrics.loss = accumulate_likelihood_gradients(network_, sequences, targets, config_.train.tokens_per_batch, pass);
  if (demonstrations_.from_files()) metrics.files = {.tokens = targets, .passes = demonstrations_.passes(state.sft)};
  const Optimizer::Outcome outcome = optimizer_.step(metrics.lr);
  state.updates += outcome.skipped ? 0 : 1;
  state.count_skipped(!outcome.skipped, outcome.overflowed);
  if (outcome.skipped) watcher.on_skipped_update(outcome.overflowed);

  GradientNorms norms;
  norms.add(outcome);
  metrics.gradients = norms.metrics();
  metrics.loss_scale = optimizer_.loss_scale();
  metrics.skipped_updates = state.skipped;
  if (!outcome.skipped)  // a loss that is not finite would stay in the average for good
    state.sft.loss_average = state.sft.loss_average
                                 ? kAverageDecay * *state.sft.loss_average + (1 - kAverageDecay) * metrics.loss
                                 : metrics.loss;
  metrics.loss_average = state.sft.loss_average.value_or(metrics.loss);
  state.sft.steps++;
  state.sft.noisy_steps += state.sft.noisy ? 1 : 0;
  return metrics;
}

std::optional<SftEvalLoss> SftTrainer::held_out_loss() {
  constexpr int64_t kRowsAtOnce = 64;
  RowStream<SupervisedRow>* rows = demonstrations_.held_out();
  if (rows == nullptr) return std::nullopt;
  rows->go_back_to({});
  SftEvalLoss result;
  double negative_logp = 0;
  while (true) {
    std::vector<SupervisedSequence> sequences;
    const std::vector<SupervisedRow> some = rows->next(kRowsAtOnce);
    if (some.empty()) break;
    for (const SupervisedRow& row : some) sequences.insert(sequences.end(), row.sequences.begin(), row.sequences.end());
    for (const PackedBatch& batch :
         pack(training_sequences(sequences), config_.train.tokens_per_batch, network_.device())) {
      throw_if_stopped();
      negative_logp -= token_statistics(network_, batch, /*temperature=*/1.0).logp.sum(at::kDouble).item<double>();
    }
    result.rows += static_cast<int64_t>(some.size());
    result.tokens += target_count(sequences);
  }
  if (result.tokens == 0) return std::nullopt;
  result.loss = negative_logp / static_cast<double>(result.tokens);
  return result;
}

std::optional<std::string> SftTrainer::choose_demonstrations(TrainState& state) const {
  const SftOptions& options = config_.sft;
  if (demonstrations_.from_files()) return std::nullopt;
  const double loss = state.sft.loss_average.value_or(std::numeric_limits<double>::infinity());
  const bool learned = loss < options.stop_loss;
  const bool out_of_steps = state.sft.steps >= options.steps - options.noisy_steps;
  if (state.sft.noisy || !(learned || out_of_steps)) return std::nullopt;
  state.sft.noisy = true;
  if (options.stop_loss <= 0 || learned) return std::nullopt;
  return "the warm-up's loss is still " + std::to_string(loss) + ", above sft.stop_loss " +
         std::to_string(options.stop_loss) + ", and its steps are used up; RL may stay flat. Raise sft.steps";
}

}  // namespace keel
