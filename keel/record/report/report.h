#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "keel/record/report/page.h"
#include "keel/record/run_data.h"

namespace keel {

/// Reads run folders with as many rows of token records as fit on one page.
std::vector<RunData> read_for_report(const std::vector<std::filesystem::path>& folders);

/// A self-contained HTML page about one run or several: no network, readable without scripts.
Page report_page(const std::vector<RunData>& runs);
std::string render_report(const std::vector<RunData>& runs);

/// Writes RUN/report.html atomically from what the run has recorded so far, and returns the data.
RunData write_report(const std::filesystem::path& run);
/// Like write_report(), but without token records, which may be slow to read. The page says so.
RunData write_report_without_tokens(const std::filesystem::path& run);

}  // namespace keel
