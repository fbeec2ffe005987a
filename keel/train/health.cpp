#include "keel/train/health.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/str_cat.h"

namespace keel {
namespace {

/// The setting that governs the learning rate of the present phase.
const char* lr_option(Phase phase, const Config& config) {
  if (phase == Phase::kSft) return "sft.lr";
  return config.critic.enabled() ? "optimizer.lr or critic.lr" : "optimizer.lr";
}

/// The largest mean |pi - mu| at equal weights; nothing where they are meant to differ.
std::optional<double> mismatch_bound(const Config& config) {
  const bool exact = config.rollout.weights == "exact" && config.rollout.logit_noise == 0 &&
                     config.rollout.staleness == 0 && config.lora.dropout == 0;
  return exact ? std::optional(kMaxMismatch) : std::nullopt;
}

constexpr const char* kLonger = "raise rollout.max_new_tokens, or check that the model knows its stop token";

/// Windows of kAlarmSteps steps follow one another; the mean reward of one that is full is compared with the best.
std::optional<std::string> reward_collapse(double reward, HealthCounts& counts) {
  counts.reward_sum += reward;
  if (++counts.reward_steps < kAlarmSteps) return std::nullopt;
  const double mean = counts.reward_sum / static_cast<double>(counts.reward_steps), best = counts.best_reward;
  counts.reward_sum = 0;
  counts.reward_steps = 0;
  counts.best_reward = std::max(best, mean);
  if (best <= 0 || mean >= kMinRewardFraction * best) return std::nullopt;
  return str_cat("the mean reward of the last ", kAlarmSteps, " steps is ", mean, ", and was ", best,
                 " before: less than ", kMinRewardFraction,
                 " of it. A lower optimizer.lr or a smaller trust region would have changed the policy less");
}

}  // namespace

void check_skipped_updates(const TrainState& state, const Config& config) {
  if (state.skipped_in_a_row <= kMaxSkippedUpdates) return;
  fail(ExitCode::kHealthGuard, state.skipped_in_a_row,
       " updates in a row had a gradient norm that is not finite (step ", state.step() + 1,
       "). Checkpoints are saved only with finite weights. Lower ", lr_option(state.phase, config),
       " in a new run (model.path may be a checkpoint), or look at log.txt for what they learned from");
}

void require_finite_weights(const MasterWeights& policy, const MasterWeights* critic, const TrainState& state,
                            const Config& config, const std::filesystem::path& checkpoints) {
  std::vector<NamedTensor> parameters = policy.tensors();
  if (critic)
    for (NamedTensor& parameter : critic->tensors())
      parameters.push_back({"the critic's " + parameter.name, parameter.value});
  const bool saved = path_exists(checkpoints / "LATEST");
  for (const NamedTensor& parameter : parameters)
    if (!parameter.value.isfinite().all().item<bool>())
      fail(ExitCode::kHealthGuard, "step ", state.step(), ": ", parameter.name,
           " holds numbers that are not finite, so ", "nothing was saved; ",
           saved ? "the checkpoints in " + checkpoints.string() + " are sound" : "there is no checkpoint yet",
           ". Lower ", lr_option(state.phase, config), " in a new run",
           saved ? "; it may start from one of them (model.path)" : "");
}

std::vector<std::string> health_alarms(const StepMetrics& metrics, const Config& config, HealthCounts& counts) {
  std::vector<std::string> alarms;
  const auto count = [&](bool ill, int64_t& steps, const auto&... what) {
    steps = ill ? steps + 1 : 0;
    if (ill && steps % kAlarmSteps == 0)
      alarms.push_back(str_cat("for ", steps, steps == 1 ? " step " : " steps in a row ", what...));
  };
  if (metrics.tokens)
    count(metrics.tokens->entropy < kMinEntropy, counts.low_entropy, "policy/entropy has been below ", kMinEntropy,
          " (", metrics.tokens->entropy,
          " now): completions hardly differ any more, so that there is little left to choose from. A lower "
          "optimizer.lr, a smaller trust region or objective.entropy_coefficient would have kept it up");
  if (const std::optional<double> bound = mismatch_bound(config); metrics.tokens && bound)
    count(metrics.tokens->mismatch_mean > *bound, counts.high_mismatch, "mismatch/abs_prob_mean has been above ",
          *bound, " (", metrics.tokens->mismatch_mean,
          " now): sampler and trainer are further apart than rounding explains");
  if (metrics.rollouts.reward_mean) {
    const bool of_step = config.critic.enabled() || config.objective.advantage == "reinforce_pp";  // are compared
    // With a KL in the rewards equal ones still differ by it.
    const bool equal = config.reference.kl_in_reward == 0 &&
                       (of_step ? metrics.rollouts.reward_std == 0.0 : metrics.rollouts.zero_std_groups == 1);
    count(equal, counts.equal_rewards, "all rewards of ", of_step ? "the step" : "every prompt",
          " have been equal (mean ", *metrics.rollouts.reward_mean, " now): there is nothing to learn from them. The ",
          "prompts are too hard or too easy for the model, or the reward function judges all alike");
    if (auto collapse = reward_collapse(*metrics.rollouts.reward_mean, counts)) alarms.push_back(*std::move(collapse));
  }
  count(metrics.rollouts.truncated == 1, counts.all_truncated,
        "every completion has been cut off at the longest length",
        metrics.masked == 1.0 ? " and left out (train.mask_truncated), so that nothing is learned: " : ": ", kLonger);
  return alarms;
}

std::optional<std::string> explain_missing_update(const StepMetrics& metrics) {
  if (metrics.masked == 1.0)
    return str_cat("every completion was cut off at the longest length and left out (train.mask_truncated); ", kLonger);
  return std::nullopt;
}

}  // namespace keel
