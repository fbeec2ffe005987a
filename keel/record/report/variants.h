#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "keel/record/charts/svg_chart.h"
#include "keel/record/run_data.h"

namespace keel {

/// Runs that differ only by their seed, drawn as one curve with a band. Most variants have one run.
struct SeedVariant {
  std::string name;
  std::vector<size_t> runs;  // indices
};

/// Groups runs into variants, in the order of their first runs.
std::vector<SeedVariant> group_by_seed(const std::vector<RunData>& runs);

/// One curve of a metric per variant. For several seeds it is the mean over the steps that all of them have, with a
/// band from the minimum to the maximum.
std::vector<ChartLine> variant_lines(const std::vector<RunData>& runs, std::string_view phase, std::string_view key);

/// The evaluations of each variant with their 95 % interval; for several seeds the mean, minimum and maximum.
std::vector<ChartMark> variant_marks(const std::vector<RunData>& runs);

}  // namespace keel
