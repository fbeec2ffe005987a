#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "keel/record/report/page.h"
#include "keel/record/run_data.h"

namespace keel {

/// Reads run folders with as much of their token records as a page of so many runs holds.
std::vector<RunData> read_for_report(const std::vector<std::filesystem::path>& folders);

/// A self-contained HTML page about one run, or about several side by side: no network, readable without scripts. It
/// depends on nothing but what was read.
Page report_page(const std::vector<RunData>& runs);
std::string render_report(const std::vector<RunData>& runs);

/// Writes RUN/report.html, whole or not at all, from what the run has recorded so far, and returns that.
RunData write_report(const std::filesystem::path& run);
/// The same while the run goes on, without its token records, which may take long to read; the page says so.
RunData write_report_without_tokens(const std::filesystem::path& run);

}  // namespace keel
