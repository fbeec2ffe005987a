#pragma once

#include <string>

#include "keel/train/start/resources.h"
#include "keel/train/start/step_estimate.h"

namespace keel::cli {

/// Describes how many sequences are decoded together, and their KV cache.
std::string describe_rollout(const RolloutPlan& plan, int64_t longest_prompt);

/// Describes what the run needs of a resource, what is available, and the verdict.
std::string describe_resource(const Resource& resource);

/// Describes the estimated time of supervised updates on files.
std::string describe_supervised_time(const RunSizes& sizes, const DeviceSpeed& speed);

/// Describes the estimated time of RL, and of supervised updates before it.
std::string describe_time(const RunSizes& sizes, const Requirements& needs, const DeviceSpeed& speed);

}  // namespace keel::cli
