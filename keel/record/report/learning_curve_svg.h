#pragma once

#include <string>

#include "keel/record/run_data.h"

namespace keel {

/// The reward curve with the evaluations, as an SVG file of its own that reads well on white and on dark pages.
std::string learning_curve_svg(const RunData& run);

}  // namespace keel
