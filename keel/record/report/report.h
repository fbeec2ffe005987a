#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "keel/record/report/page.h"
#include "keel/record/run_data.h"

namespace keel {

/// A page about one run, or about several side by side; readable without scripts.
Page report_page(const std::vector<RunData>& runs);
std::string render_report(const std::vector<RunData>& runs);

/// Writes RUN/report.html, whole or not at all, from what the run has recorded so far, and returns that.
RunData write_report(const std::filesystem::path& run);

}  // namespace keel
