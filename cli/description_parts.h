#pragma once

#include <string>

#include "keel/core/console.h"
#include "keel/core/tensor/tensor.h"
#include "keel/model/loaded_model.h"
#include "keel/train/config/config.h"
#include "keel/train/start/demonstrations.h"

namespace keel::cli {

// Parts of the descriptions of runs.

/// Formats an entry: "  name        text\n", with the lines of `text` aligned.
std::string entry(const std::string& name, const std::string& text);

/// Wraps long lines of entries for a terminal, with hanging indent.
std::string wrap_entries(const std::string& entries, const Console& console);

/// Describes the model and its adapter; `adapter` is the adapter's configuration file.
std::string describe_model(const Config& config, const ModelConfig& shape, const Json& adapter, at::ScalarType type,
                           const std::string& device);

/// Describes the dtype of saved checkpoints if it is narrower than float32.
std::string describe_saving(const Config& config, at::ScalarType saved_as);

/// Describes advantage estimation and loss aggregation.
std::string describe_advantage(const Objective& objective);

/// Describes the learning rate schedule, also for a warm-up longer than the run.
std::string describe_rate(const OptimizerOptions& optimizer, double updates, double updates_per_step = 1);

/// Describes supervised updates on files; empty if there are none.
std::string describe_supervised(const Config& config, const Demonstrations& demonstrations);

}  // namespace keel::cli
