#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "keel/model/network/critic.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"
#include "keel/train/metrics/step_metrics.h"

namespace keel {

// Thresholds of the alarms. Steps with only equal rewards per prompt, or only truncated completions, always count.
constexpr int64_t kAlarmSteps = 20;         // consecutive RL steps before an alarm
constexpr double kMinEntropy = 0.01;        // policy/entropy in nats
constexpr double kMinRewardFraction = 0.5;  // of the best mean reward over kAlarmSteps steps, or of the first steps
constexpr double kMaxMismatch = 0.01;       // mismatch/abs_prob_mean at equal weights
constexpr int64_t kEarlyWindow = 5;         // steps whose reward is compared with that of the first steps
constexpr int64_t kFirstPrompts = 64;       // the first steps are at most kEarlyWindow, or have this many prompts
constexpr int64_t kEarlySteps = 40;         // later, means over kAlarmSteps steps are compared
constexpr int64_t kMaxSkippedUpdates = 3;   // consecutive skipped updates before the run stops

/// Stops the run (exit code 4) after too many consecutive skipped updates.
void check_skipped_updates(const TrainState& state, const Config& config);

/// Stops the run (exit code 4) before it saves NaN or infinite weights, which would replace valid checkpoints. `critic`
/// may be null.
void require_finite_weights(const MasterWeights& policy, const MasterWeights* critic, const TrainState& state,
                            const Config& config, const std::filesystem::path& checkpoints);

/// Warns if the trust region masks many tokens of a step's first update, when sampler and trainer have equal weights.
std::optional<std::string> warn_of_masks_by_mismatch(const StepMetrics& metrics, const Config& config);

/// Explains why a step made no update, and the fix; none if it made one.
std::optional<std::string> explain_missing_update(const StepMetrics& metrics);

/// Counts the signs that a run does not learn or gets worse. Returns a sentence for each sign that has lasted
/// kAlarmSteps steps or a multiple of them, and for a collapse of the reward in the first kEarlySteps steps.
std::vector<std::string> health_alarms(const StepMetrics& metrics, const Config& config, HealthCounts& counts);

}  // namespace keel
