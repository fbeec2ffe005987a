#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "keel/record/charts/svg_chart.h"
#include "keel/record/run_data.h"

namespace keel {

/// Runs that differ by their seed alone, drawn as one curve with a band; most variants have one run.
struct SeedVariant {
  std::string name;
  std::vector<size_t> runs;  // places in the list
};

/// In the order of their first runs.
std::vector<SeedVariant> variants_of(const std::vector<RunData>& runs);

/// What is taken off a run's steps, which count those of its warm-up too: runs side by side begin with RL at 0.
double first_step_of(const RunData& run, size_t runs, std::string_view phase);

/// The curve of a metric for each variant that has it, in the variant's colour. Of several seeds it is the mean at the
/// steps that all of them have, with a band from the smallest to the largest.
std::vector<ChartLine> variant_lines(const std::vector<RunData>& runs, std::string_view phase, std::string_view key);

/// The evaluations of each variant: with their 95 % interval, or of several seeds the mean with the smallest and the
/// largest.
std::vector<ChartMark> variant_marks(const std::vector<RunData>& runs);

}  // namespace keel
