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

// What an alarm is. Equal rewards of every prompt, and completions that are all cut off, are always one.
constexpr int64_t kAlarmSteps = 20;         // RL steps in a row
constexpr double kMinEntropy = 0.01;        // policy/entropy in nats
constexpr double kMinRewardFraction = 0.5;  // of the best mean reward of so many steps
constexpr double kMaxMismatch = 0.01;       // mismatch/abs_prob_mean at equal weights
constexpr int64_t kMaxSkippedUpdates = 3;   // in a row, before the run stops

/// Stops a run (exit code 4) of which too many updates in a row were skipped.
void check_skipped_updates(const TrainState& state, const Config& config);

/// Stops a run (exit code 4) before it saves weights that are not finite: a checkpoint of broken weights would, by and
/// by, push the sound ones out. `critic` may be null.
void require_finite_weights(const MasterWeights& policy, const MasterWeights* critic, const TrainState& state,
                            const Config& config, const std::filesystem::path& checkpoints);

/// Why no update was made in a step, and the way out; nothing where one was.
std::optional<std::string> explain_missing_update(const StepMetrics& metrics);

/// Counts a step's signs of a run that has stopped learning or unlearns, and answers a sentence for each that has
/// lasted kAlarmSteps steps, or twice, three times as many.
std::vector<std::string> health_alarms(const StepMetrics& metrics, const Config& config, HealthCounts& counts);

}  // namespace keel
