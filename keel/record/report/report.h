#pragma once

#include <string>
#include <vector>

#include "keel/record/run_data.h"

namespace keel {

/// A self-contained HTML page about one run, or about several side by side: no network, readable without scripts.
std::string render_report(const std::vector<RunData>& runs);

}  // namespace keel
