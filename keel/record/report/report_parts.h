#pragma once

// The parts report.cpp puts together; each returns HTML, empty when the runs have nothing to show there.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "keel/record/charts/svg_chart.h"
#include "keel/record/run_data.h"

namespace keel {

/// How a metric is written for people.
enum class Unit { kNumber, kShare, kCount, kSeconds, kBytes };

/// A share as "1.8 %", a count with separators, and so on; a dash for a value that is not finite.
std::string format_value(double value, Unit unit);

/// A share with one decimal ("38.1 %"), with two digits where it is below one percent.
std::string format_percent(double share);

/// An accuracy in percent, a mean reward as it is.
std::string format_mean(const EvalPoint& eval);

/// What the runs' evaluations measure: "accuracy", "reward", or both words where they differ.
std::string evaluation_name(const std::vector<RunData>& runs);

/// A signed number with a true minus: "+0.43", "−0.37".
std::string format_signed(double value);

/// The settings of a run that have an effect in it, by path.
std::map<std::string, std::string> settings_of(const RunData& run);

/// The value of a setting of the run, "" where it has none or the setting is without effect.
std::string setting(const RunData& run, const std::string& path);

/// "2 steps behind", the sampler of a run with rollout.staleness; "" for one without.
std::string steps_behind(const RunData& run);

/// "1 step", "1,234 steps".
std::string plural(int64_t count, const std::string& noun);

/// A table's head and its rows; all texts are HTML.
std::string header_row(const std::vector<std::string>& names);
std::string body_row(const std::string& head, const std::vector<std::string>& cells);

/// Whether the k-th of so many points with an interval is drawn: more of a run's would bury the curve.
bool is_marked(size_t k, size_t count);

enum class ChartSize { kHalf, kWide };

/// A chart as a card with its title, caption and legend.
std::string chart_figure(Chart chart, const std::string& caption, const std::string& mark_name = "",
                         ChartSize size = ChartSize::kHalf);

/// A token in one line, its spaces to be seen.
std::string visible_token(const std::string& token);

/// Samples as cards, tokens shaded by what the update did to them.
std::string sample_cards(const std::vector<const Sample*>& samples);

// Parts of the first page.
std::string headline_tiles(const RunData& run);
std::string comparison_table(const std::vector<RunData>& runs);
std::string differing_settings(const std::vector<RunData>& runs);
std::string chart_sections(const std::vector<RunData>& runs);

// Parts of others.
std::string trust_region_charts(const std::vector<RunData>& runs);
/// Figures without a frame around them.
std::string mismatch_charts(const std::vector<RunData>& runs);
/// What is to be known of all curves of a phase.
std::string notes_on_curves(const std::vector<RunData>& runs, std::string_view phase);
std::string numbers_table(const RunData& run);
/// At most `most` samples; `open` false folds them away.
std::string samples_section(const RunData& run, size_t most, bool open);

// Whole pages.
std::string trust_region_page(const std::vector<RunData>& runs);
std::string mismatch_page(const std::vector<RunData>& runs);
std::string health_page(const std::vector<RunData>& runs);
/// The verdict in a line, for the first page; empty where there are too few steps for one.
std::string health_line(const RunData& run);

/// What a run's records leave to be said before anything is shown of them: that there are none and how to get some,
/// that they were not read, which are damaged.
std::string notes_on_records(const RunData& run);

/// Blocks of several runs under one another, each named; the page's script shows one at a time.
std::string of_each_run(const std::vector<RunData>& runs,
                        const std::function<std::string(const RunData&, size_t)>& part);

std::string report_style();
std::string report_script();

}  // namespace keel
