#pragma once

#include <string>

#include "keel/record/run_data.h"

namespace keel {

/// The reward curve with evaluations as a standalone SVG file for white and dark pages.
std::string learning_curve_svg(const RunData& run);

}  // namespace keel
