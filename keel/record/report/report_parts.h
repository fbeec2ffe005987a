#pragma once

// The parts report.cpp puts together; each returns HTML, empty when the runs have nothing to show there.

#include <string>
#include <vector>

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

/// The value of a setting of the run, "" where it has none or the setting is without effect.
std::string setting(const RunData& run, const std::string& path);

/// "2 steps behind", the sampler of a run with rollout.staleness; "" for one without.
std::string steps_behind(const RunData& run);

std::string headline_tiles(const RunData& run);
std::string comparison_table(const std::vector<RunData>& runs);
std::string differing_settings(const std::vector<RunData>& runs);
std::string numbers_table(const RunData& run);
std::string chart_sections(const std::vector<RunData>& runs);
/// At most `most` samples, tokens shaded by what the update did to them; `open` false folds them away.
std::string samples_section(const RunData& run, size_t most, bool open);

const char* report_style();
const char* report_script();

}  // namespace keel
