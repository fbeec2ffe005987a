#pragma once

#include <string>
#include <vector>

#include "keel/core/console.h"
#include "keel/train/config/config.h"
#include "keel/train/run.h"
#include "keel/train/start/resources.h"

namespace keel::cli {

/// Formats a number with up to six digits.
std::string short_number(double value);

/// "1 sample", "2 samples".
std::string counted(int64_t count, const std::string& what);

/// "temperature 0.7", "greedy", "greedy (all equal)" for several samples.
std::string describe_temperature(double temperature, int64_t samples);

/// Summarises a loaded run: method and thresholds, model, data, reward, sizes.
std::string describe_run(const Config& config, Run& run);

/// The text of --explain, and the resources that it compares with this machine.
struct Explanation {
  std::string text = "";
  std::vector<Resource> resources;
};

/// Describes a run in more detail without loading weights, for --explain. Throws the errors that starting it would
/// throw, except those on resources.
Explanation explain(const Config& config, Console& console);

}  // namespace keel::cli
