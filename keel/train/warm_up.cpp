#include "keel/train/warm_up.h"

#include <ATen/ATen.h>

#include "keel/train/start/task_prompts.h"
#include "keel/train/update/gradients.h"
#include "keel/train/update/packing.h"

namespace keel {
namespace {

constexpr double kAverageDecay = 0.95;

struct Encoded {
  std::vector<int32_t> prompt, completion;
};

double noisy_lr(const SftOptions& options, int64_t noisy_step) {
  const double share =
      options.noisy_steps > 1 ? static_cast<double>(noisy_step) / static_cast<double>(options.noisy_steps - 1) : 0;
  return options.noisy_lr + (options.noisy_lr_end - options.noisy_lr) * share;
}

OptimizerOptions sft_optimizer(const SftOptions& options) {
  OptimizerOptions result;
  result.beta2 = options.beta2;
  result.max_grad_norm = options.max_grad_norm;
  return result;
}

std::vector<Encoded> next_demonstrations(const Config& config, const LoadedModel& policy, const Task& task,
                                         const TrainState& state) {
  std::vector<Encoded> encoded;
  for (int64_t i = 0; i < config.sft.batch; ++i) {
    const uint64_t index = static_cast<uint64_t>(state.sft_steps * config.sft.batch + i);
    const Demonstration demonstration = task.demonstrate(config.run.seed, index, state.noisy);
    encoded.push_back({prompt_tokens(policy, demonstration.problem.prompt, config.data.date),
                       encode_completion(policy.tokenizer, demonstration.completion, policy.stop_ids.front())});
  }
  return encoded;
}

/// Adds the gradients of the mean log-likelihood, times the scale, to the parameters'; returns the loss.
double accumulate_likelihood_gradients(const CausalLm& model, const std::vector<Encoded>& demonstrations,
                                       int64_t tokens_per_batch, double loss_scale) {
  std::vector<TrainingSequence> sequences;
  int64_t targets = 0;
  for (size_t i = 0; i < demonstrations.size(); ++i) {
    sequences.push_back(
        {demonstrations[i].prompt, demonstrations[i].completion, static_cast<int64_t>(i), static_cast<int64_t>(i)});
    targets += static_cast<int64_t>(demonstrations[i].completion.size());
  }
  Tensor negative_logp = at::zeros({}, at::TensorOptions(at::kDouble).device(model.device()));
  for (const PackedBatch& batch : pack(sequences, tokens_per_batch, model.device())) {
    const auto coefficients = [&](const TokenStats& stats, int64_t, int64_t) -> HeadCoefficients {
      negative_logp -= stats.logp.sum(at::kDouble);
      return {.coefficient = at::full_like(stats.logp, 1.0 / static_cast<double>(targets)), .entropy_coefficient = {}};
    };
    accumulate_gradients(model, batch, /*temperature=*/1.0, Scope::kToken, coefficients, {}, {}, loss_scale);
  }
  return negative_logp.item<double>() / static_cast<double>(targets);
}

}  // namespace

WarmUp::WarmUp(const Config& config, const LoadedModel& policy, const Task& task)
    : config_(config), policy_(policy), task_(task), optimizer_(policy.model.trainable(), sft_optimizer(config.sft)) {}

WarmUpNumbers WarmUp::step(TrainState& state, StepWatcher& watcher) {
  const SftOptions& options = config_.sft;
  WarmUpNumbers numbers{.lr = state.noisy ? noisy_lr(options, state.noisy_steps) : options.lr, .noisy = state.noisy};
  const CausalLm model =
      policy_.model.with_dropout(config_.lora.dropout, config_.run.seed, static_cast<uint64_t>(state.sft_steps));
  numbers.loss = accumulate_likelihood_gradients(model, next_demonstrations(config_, policy_, task_, state),
                                                 config_.train.tokens_per_batch, optimizer_.loss_scale().value_or(1));
  const Optimizer::Outcome outcome = optimizer_.step(numbers.lr);
  state.updates += outcome.skipped ? 0 : 1;
  state.count_update(!outcome.skipped, outcome.overflowed);
  if (outcome.skipped) watcher.skipped_update(outcome.overflowed);

  GradientNorms norms;
  norms.add(outcome);
  numbers.gradients = norms.numbers();
  numbers.loss_scale = optimizer_.loss_scale();
  numbers.skipped_updates = state.skipped;
  if (!outcome.skipped)  // a loss that is not finite would stay in the average for good
    state.loss_average =
        state.loss_average < 0 ? numbers.loss : kAverageDecay * state.loss_average + (1 - kAverageDecay) * numbers.loss;
  numbers.loss_average = state.loss_average;
  state.sft_steps++;
  state.noisy_steps += state.noisy ? 1 : 0;
  return numbers;
}

std::optional<std::string> WarmUp::choose_demonstrations(TrainState& state) const {
  const SftOptions& options = config_.sft;
  const bool learned = options.stop_loss > 0 && state.loss_average < options.stop_loss;
  const bool out_of_steps = state.sft_steps >= options.steps - options.noisy_steps;
  if (state.noisy || !(learned || out_of_steps)) return std::nullopt;
  state.noisy = true;
  if (options.stop_loss <= 0 || learned) return std::nullopt;
  return "the warm-up's loss is still " + std::to_string(state.loss_average) + ", above sft.stop_loss " +
         std::to_string(options.stop_loss) + ", and its steps are used up; RL may stay flat. Raise sft.steps";
}

bool WarmUp::done(const TrainState& state) const {
  return state.sft_steps >= config_.sft.steps || (state.noisy && state.noisy_steps >= config_.sft.noisy_steps);
}

}  // namespace keel
