#pragma once

#include <string>

#include "keel/core/console.h"
#include "keel/train/config/config.h"
#include "keel/train/run.h"

namespace keel::cli {

/// Formats a number with up to six digits.
std::string short_number(double value);

/// "1 sample", "2 samples".
std::string counted(int64_t count, const std::string& what);

/// "temperature 0.7", "greedy", "greedy (all equal)" for several samples.
std::string describe_temperature(double temperature, int64_t samples);

/// Summarises a loaded run: method and thresholds, model, data, reward, sizes.
std::string describe_run(const Config& config, Run& run);

/// Describes a run in more detail without loading weights, for --explain. Throws the errors that starting it would
/// throw.
std::string explain(const Config& config, Console& console);

}  // namespace keel::cli
