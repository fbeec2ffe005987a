#pragma once

#include <string>

#include "keel/train/config/config.h"
#include "keel/train/run.h"

namespace keel::cli {

/// A number for people: up to six digits.
std::string short_number(double value);

/// "1 sample", "2 samples".
std::string counted(int64_t count, const std::string& what);

/// "temperature 0.7", "greedy", "greedy (all alike)" for several samples.
std::string sampling_words(double temperature, int64_t samples);

/// What a run does, in a few lines, out of what it has loaded: method and thresholds, model, data, reward, sizes.
std::string describe_run(const Config& config, Run& run);

/// The same and every other derived number, without the model's weights. What would be refused when the run starts is
/// refused here.
std::string explain(const Config& config);

}  // namespace keel::cli
