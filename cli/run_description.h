#pragma once

#include <string>

#include "keel/train/config/config.h"
#include "keel/train/run.h"

namespace keel::cli {

/// A number for people: up to six digits.
std::string short_number(double value);

/// What a run does, in a few lines, out of what it has loaded: method and thresholds, model, data, reward, sizes.
std::string describe_run(const Config& config, const Run& run);

/// The same and every other derived number, out of the configuration alone: nothing is loaded but the model's shape.
std::string explain(const Config& config);

}  // namespace keel::cli
