#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "keel/record/run_data.h"

namespace keel {

/// A self-contained HTML page about one run, or about several side by side: no network, readable without scripts.
std::string render_report(const std::vector<RunData>& runs);

/// Writes RUN/report.html, whole or not at all, from what the run has recorded so far, and returns that.
RunData write_report(const std::filesystem::path& run);

}  // namespace keel
