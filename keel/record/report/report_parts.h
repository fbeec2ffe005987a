#pragma once

// The parts of the report. Each returns HTML, or "" if the runs have no data for it.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "keel/record/charts/svg_chart.h"
#include "keel/record/run_data.h"

namespace keel {

/// How to format a metric.
enum class Unit { kNumber, kFraction, kCount, kSeconds, kBytes };

/// Formats a fraction as "1.8 %", a count with separators, and so on; NaN and infinity as a dash.
std::string format_value(double value, Unit unit);

/// Formats a fraction with one decimal ("38.1 %"), or with two digits below one percent.
std::string format_percent(double fraction);

/// Formats an accuracy in percent, or a mean reward as a number.
std::string format_mean(const EvalPoint& eval);

/// Returns "accuracy", "reward", or "accuracy or reward" if the runs differ.
std::string evaluation_name(const std::vector<RunData>& runs);

/// A signed number with a true minus: "+0.43", "−0.37".
std::string format_signed(double value);

/// Returns the settings that have an effect in the run, by path.
std::map<std::string, std::string> effective_settings(const RunData& run);

/// Returns the value of a setting, "" if it is missing or has no effect.
std::string setting(const RunData& run, const std::string& path);

/// "2 steps behind" for a run with rollout.staleness, else "".
std::string staleness_text(const RunData& run);

/// "1 step", "1,234 steps".
std::string plural(int64_t count, const std::string& noun);

/// A table's head and its rows; all texts are HTML.
std::string header_row(const std::vector<std::string>& names);
std::string body_row(const std::string& head, const std::vector<std::string>& cells);

/// Returns whether the k-th of `count` points gets an interval marker; more markers would hide the curve.
bool has_marker(size_t k, size_t count);

enum class ChartSize { kHalf, kWide };

/// A chart as a card with its title, caption and legend.
std::string chart_figure(Chart chart, const std::string& caption, const std::string& mark_name = "",
                         ChartSize size = ChartSize::kHalf);

/// Formats a token in one line with visible spaces.
std::string format_token(const std::string& token);

/// Samples as cards with tokens shaded by their gradient weight.
std::string sample_cards(const std::vector<const Sample*>& samples);

// Parts of the overview page.
std::string headline_tiles(const RunData& run);
std::string comparison_table(const std::vector<RunData>& runs);
std::string differing_settings(const std::vector<RunData>& runs);
std::string chart_sections(const std::vector<RunData>& runs);

// Parts of other pages.
std::string trust_region_charts(const std::vector<RunData>& runs);
/// Figures without a surrounding element.
std::string mismatch_charts(const std::vector<RunData>& runs);
/// Notes on all curves of a phase.
std::string notes_on_curves(const std::vector<RunData>& runs, std::string_view phase);
std::string numbers_table(const RunData& run);
/// Shows at most `max_samples` samples, collapsed unless `expanded`.
std::string samples_section(const RunData& run, size_t max_samples, bool expanded);

// Whole pages.
std::string trust_region_page(const std::vector<RunData>& runs);
std::string mismatch_page(const std::vector<RunData>& runs);
std::string health_page(const std::vector<RunData>& runs);
/// The health verdict in one line; empty for too few steps without a warning.
std::string health_line(const RunData& run);

/// Notes on missing, unread or damaged token records.
std::string notes_on_records(const RunData& run);

/// Renders a named block for each run. The page's script shows one at a time.
std::string render_each_run(const std::vector<RunData>& runs,
                            const std::function<std::string(const RunData&, size_t)>& part);

std::string report_style();
std::string report_script();

}  // namespace keel
