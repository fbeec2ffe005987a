#include "keel/train/health.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/str_cat.h"
#include "keel/core/strings.h"
#include "keel/evaluation/intervals.h"

namespace keel {
namespace {

/// The setting of the current phase's learning rate.
const char* lr_option(Phase phase, const Config& config) {
  if (phase == Phase::kSft) return "sft.lr";
  return config.critic.enabled() ? "optimizer.lr or critic.lr" : "optimizer.lr";
}

/// The limit of the mean |pi - mu| at equal weights; none if the settings make sampler and trainer differ.
std::optional<double> max_mismatch(const Config& config) {
  const bool exact = config.rollout.weights == "exact" && config.rollout.logit_noise == 0 &&
                     config.rollout.staleness == 0 && config.lora.dropout == 0;
  return exact ? std::optional(kMaxMismatch) : std::nullopt;
}

constexpr const char* kTruncationFix = "raise rollout.max_new_tokens, or check that the model knows its stop token";

/// Compares the mean reward of each full window of kAlarmSteps steps with the best window.
std::optional<std::string> reward_collapse(double reward, HealthCounts& counts) {
  counts.reward_sum += reward;
  if (++counts.reward_steps < kAlarmSteps) return std::nullopt;
  const double mean = counts.reward_sum / static_cast<double>(counts.reward_steps), best = counts.best_reward;
  counts.reward_sum = 0;
  counts.reward_steps = 0;
  counts.best_reward = std::max(best, mean);
  if (best <= 0 || mean >= kMinRewardFraction * best) return std::nullopt;
  return str_cat("the mean reward of the last ", kAlarmSteps, " steps is ", mean, ", less than ", kMinRewardFraction,
                 " of the best, ", best, ". Lower optimizer.lr or use a smaller trust region");
}

/// The 95 % interval of the mean reward: Wilson's, with the reward as a fraction of its range so far and one trial per
/// prompt. This is wide enough for every distribution in the range, even if all samples of a prompt agree.
Interval early_interval(const RewardWindow& window, const HealthCounts& counts) {
  const double lowest = counts.min_reward, range = counts.max_reward - lowest;
  const auto prompts = static_cast<double>(window.prompts);
  const auto [low, high] = wilson_interval((window.mean - lowest) / range * prompts, prompts);
  return {lowest + low * range, lowest + high * range};
}

std::string window_text(const RewardWindow& window, const Interval& interval) {
  return str_cat(fixed(window.mean, 3), " [", fixed(interval.first, 3), ", ", fixed(interval.second, 3), "]");
}

/// Compares each window of kEarlyWindow steps with the first steps of the run, and with the first step alone, because
/// the first update can already be too large. A collapse is a fall below half of their reward, with intervals that do
/// not overlap. Half is measured from 0, or from the lowest reward if that is negative. Of simulated runs with a
/// constant success rate, 0.2 % have an alarm, and 2 % if all samples of a prompt agree, which is the worst case
/// (tests/train/health_test.cpp). The evaluation at the start is not a reference, because its prompts,
/// temperature and length penalties may differ.
std::optional<std::string> early_collapse(const RolloutMetrics& rollouts, HealthCounts& counts) {
  if (counts.early_steps >= kEarlySteps) return std::nullopt;
  counts.min_reward = std::min(counts.min_reward, rollouts.reward_min.value_or(0));
  counts.max_reward = std::max(counts.max_reward, rollouts.reward_max.value_or(0));
  RewardWindow &first = counts.first_rewards, &recent = counts.recent_rewards;
  const bool is_first =
      first.steps == counts.early_steps && first.steps < kEarlyWindow && first.prompts < kFirstPrompts;
  ++counts.early_steps;
  if (counts.early_steps == 1) counts.first_step.add(*rollouts.reward_mean, rollouts.scored_prompts);
  (is_first ? first : recent).add(*rollouts.reward_mean, rollouts.scored_prompts);
  if (is_first || recent.steps < kEarlyWindow) return std::nullopt;
  const RewardWindow window = std::exchange(recent, {});
  if (window.prompts == 0 || counts.max_reward == counts.min_reward) return std::nullopt;
  const Interval now = early_interval(window, counts);
  for (const RewardWindow& reference : {first, counts.first_step}) {
    const double half = counts.min_reward + kMinRewardFraction * (reference.mean - counts.min_reward);
    const Interval before = early_interval(reference, counts);
    if (window.mean >= half || now.second >= before.first) continue;
    counts.early_steps = kEarlySteps;  // one alarm is enough
    return str_cat(
        "the mean reward of the last ", kEarlyWindow, " steps is ", window_text(window, now),
        ", less than half of that of the first ", reference.steps == 1 ? "step" : str_cat(reference.steps, " steps"),
        ", ", window_text(reference, before), " (95 % intervals). Lower optimizer.lr or use a smaller trust region");
  }
  return std::nullopt;
}

}  // namespace

void check_skipped_updates(const TrainState& state, const Config& config) {
  if (state.skipped_in_a_row <= kMaxSkippedUpdates) return;
  fail(ExitCode::kHealthGuard, state.skipped_in_a_row,
       " consecutive updates had a NaN or infinite gradient norm (step ", state.step() + 1,
       "). Checkpoints have only finite weights. Lower ", lr_option(state.phase, config),
       " in a new run (model.path may be a checkpoint), or check the data of these updates, which log.txt lists");
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
           " has NaN or infinite weights, so nothing was saved; ",
           saved ? "the checkpoints in " + checkpoints.string() + " are valid" : "there is no checkpoint yet",
           ". Lower ", lr_option(state.phase, config), " in a new run",
           saved ? "; it may start from one of them (model.path)" : "");
}

std::vector<std::string> health_alarms(const StepMetrics& metrics, const Config& config, HealthCounts& counts) {
  std::vector<std::string> alarms;
  const auto count = [&](bool is_bad, int64_t& steps, const auto&... what) {
    steps = is_bad ? steps + 1 : 0;
    if (is_bad && steps % kAlarmSteps == 0)
      alarms.push_back(str_cat("for ", steps, steps == 1 ? " step " : " steps in a row ", what...));
  };
  if (metrics.tokens)
    count(metrics.tokens->entropy < kMinEntropy, counts.low_entropy, "policy/entropy has been below ", kMinEntropy,
          " (", metrics.tokens->entropy,
          " now): completions hardly differ. Lower optimizer.lr, use a smaller trust region, or set "
          "objective.entropy_coefficient");
  if (const std::optional<double> bound = max_mismatch(config); metrics.tokens && bound)
    count(metrics.tokens->mismatch_mean > *bound, counts.high_mismatch, "mismatch/abs_prob_mean has been above ",
          *bound, " (", metrics.tokens->mismatch_mean, " now): sampler and trainer differ by more than rounding");
  if (metrics.rollouts.reward_mean) {
    // These methods compare all rewards of the step, and not only those of a prompt.
    const bool whole_step = config.critic.enabled() || compares_whole_step(config.objective.advantage.value_or(""));
    // With a KL penalty in the rewards, equal rewards still give different advantages.
    const bool equal = config.reference.kl_in_reward == 0 &&
                       (whole_step ? metrics.rollouts.reward_std == 0.0 : metrics.rollouts.zero_std_groups == 1);
    count(equal, counts.equal_rewards, "all rewards of ", whole_step ? "the step" : "every prompt",
          " have been equal (mean ", *metrics.rollouts.reward_mean,
          " now), so they give no learning signal. The prompts ",
          "are too hard or too easy for the model, or the reward function does not distinguish completions");
    if (auto collapse = early_collapse(metrics.rollouts, counts)) alarms.push_back(*std::move(collapse));
    if (auto collapse = reward_collapse(*metrics.rollouts.reward_mean, counts)) alarms.push_back(*std::move(collapse));
  }
  count(metrics.rollouts.truncated == 1, counts.all_truncated,
        "every completion has been truncated at the maximum length",
        metrics.masked == 1.0 ? " and masked (train.mask_truncated), so the policy is not updated: " : ": ",
        kTruncationFix);
  return alarms;
}

std::optional<std::string> warn_of_masks_by_mismatch(const StepMetrics& metrics, const Config& config) {
  constexpr double kMaxMasked = 0.05;
  if (!metrics.tokens || metrics.tokens->masked_by_update.empty() || config.rollout.staleness > 0) return std::nullopt;
  const double masked = metrics.tokens->masked_by_update.front();
  if (masked <= kMaxMasked) return std::nullopt;
  return str_cat(config.objective.method, " masks ", fixed(100 * masked, 1),
                 " % of the tokens in the first update of the step, although sampler and trainer have equal weights: ",
                 "its threshold is below their difference by rounding. Fix: set objective.anchor=recomputed or ",
                 config.rollout.weights == "exact" ? "rollout.bitwise=true" : "rollout.weights=exact",
                 ", or raise the threshold");
}

std::optional<std::string> explain_missing_update(const StepMetrics& metrics) {
  if (metrics.masked == 1.0)
    return str_cat("every completion was truncated at the maximum length and masked (train.mask_truncated); ",
                   kTruncationFix);
  return std::nullopt;
}

}  // namespace keel
