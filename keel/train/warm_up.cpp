// The supervised warm-up: every target of a demonstration has the coefficient 1, so the gradient is that of the mean
// log-likelihood.

#include <ATen/ATen.h>

#include "keel/train/start/task_prompts.h"
#include "keel/train/trainer.h"
#include "keel/train/update/gradients.h"

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

}  // namespace

Json Trainer::sft_step() {
  const SftOptions& options = config_.sft;
  std::vector<Encoded> encoded;
  std::vector<TrainingSequence> sequences;
  int64_t targets = 0;
  for (int64_t i = 0; i < options.batch; ++i) {
    const uint64_t index = static_cast<uint64_t>(state_.sft_steps * options.batch + i);
    const Demonstration demonstration = problems_.task()->demonstrate(config_.run.seed, index, state_.noisy);
    encoded.push_back({prompt_tokens(policy_, demonstration.problem.prompt),
                       encode_completion(policy_.tokenizer, demonstration.completion, policy_.stop_ids.front())});
    targets += static_cast<int64_t>(encoded.back().completion.size());
  }
  for (size_t i = 0; i < encoded.size(); ++i)
    sequences.push_back({encoded[i].prompt, encoded[i].completion, static_cast<int64_t>(i)});

  Tensor negative_logp = at::zeros({}, at::TensorOptions(at::kDouble).device(device_));
  for (const PackedBatch& batch : pack(sequences, config_.train.tokens_per_batch, device_)) {
    accumulate_gradients(policy_.model, batch, /*temperature=*/1.0, Scope::kToken,
                         [&](const TokenStats& stats, int64_t, int64_t) -> HeadCoefficients {
                           negative_logp -= stats.logp.sum(at::kDouble);
                           return {.coefficient = at::full_like(stats.logp, 1.0 / static_cast<double>(targets)),
                                   .entropy_coefficient = {}};
                         });
  }
  Json row;
  apply_update(state_.noisy ? noisy_lr(options, state_.noisy_steps) : options.lr, row);

  const double loss = negative_logp.item<double>() / static_cast<double>(targets);
  state_.loss_average =
      state_.loss_average < 0 ? loss : kAverageDecay * state_.loss_average + (1 - kAverageDecay) * loss;
  state_.step++;
  state_.sft_steps++;
  state_.noisy_steps += state_.noisy ? 1 : 0;
  row["sft/loss"] = loss;
  row["sft/loss_average"] = state_.loss_average;
  row["sft/noisy"] = state_.noisy;
  return row;
}

void Trainer::finish_sft_step() {
  const SftOptions& options = config_.sft;
  const bool learned = options.stop_loss > 0 && state_.loss_average < options.stop_loss;
  const bool out_of_steps = state_.sft_steps >= options.steps - options.noisy_steps;
  if (!state_.noisy && (learned || out_of_steps)) {
    if (options.stop_loss > 0 && !learned)
      console_.warning("the warm-up's loss is still " + std::to_string(state_.loss_average) + ", above sft.stop_loss " +
                       std::to_string(options.stop_loss) +
                       ", and its steps are used up; RL may stay flat. Raise sft.steps");
    state_.noisy = true;
  }
  if (state_.sft_steps >= options.steps || (state_.noisy && state_.noisy_steps >= options.noisy_steps))
    begin_phase(Phase::kRl);
}

}  // namespace keel
