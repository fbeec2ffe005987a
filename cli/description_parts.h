#pragma once

#include <string>

#include "keel/core/console.h"
#include "keel/core/tensor/tensor.h"
#include "keel/model/loaded_model.h"
#include "keel/train/config/config.h"
#include "keel/train/start/demonstrations.h"

namespace keel::cli {

// What descriptions of runs are made of.

/// "  name        text\n", the lines of `text` under each other.
std::string entry(const std::string& name, const std::string& text);

/// Entries as a terminal shows them: a line that is longer than it is wide goes on under its text.
std::string fitted(const std::string& entries, const Console& console);

/// The model and the adapter on it, of which `adapter` is the file.
std::string describe_model(const Config& config, const ModelConfig& shape, const Json& adapter, at::ScalarType type,
                           const std::string& device);

/// What folders of checkpoints hold where it is less than what is trained.
std::string describe_saving(const Config& config, at::ScalarType saved_as);

/// The first type of its weights in a folder that is not float32, if there is one.
at::ScalarType saved_type(const LoadedModel& policy);

/// How rewards become advantages, and tokens an average.
std::string describe_advantage(const Objective& objective);

/// The learning rate and its way through the run, and how far a warm-up gets that is longer than the run.
std::string describe_rate(const OptimizerOptions& o, double updates, double of_step = 1);

/// Supervised updates on files; empty where there are none.
std::string describe_supervised(const Config& config, const Demonstrations& demonstrations);

}  // namespace keel::cli
