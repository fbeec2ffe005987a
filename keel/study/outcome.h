#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "keel/core/json.h"

namespace keel {

// What came of one run of a study, and of all of them.

/// The names of what is measured of every run; those of StudyOptions::measures come behind them.
namespace measure {
inline constexpr const char* kFinal = "final";          // mean reward over the last steps
inline constexpr const char* kEarly = "early";          // and over as many first ones
inline constexpr const char* kBest = "best";            // the highest mean of five steps that follow one another
inline constexpr const char* kCollapsed = "collapsed";  // 1 where the run fell below half of that, and stayed there
inline constexpr const char* kBefore = "eval_before";   // accuracy, or mean reward, of the evaluations around RL
inline constexpr const char* kAfter = "eval_after";
}  // namespace measure

struct Outcome {
  std::string variant;
  uint64_t seed = 0;
  std::map<std::string, double> measures;  // a name that is missing: the run has no such number
  std::vector<double> rewards = {};        // of each step, for the curves
};

/// Of a finished run's folder; `last` steps are its end, at most a third of them.
Outcome measure_run(const std::filesystem::path& run, int64_t last, const std::vector<std::string>& metrics);

/// The names of what a run's RL steps have in metrics.jsonl.
std::vector<std::string> metric_names(const std::filesystem::path& run);

/// Whether the rewards of a run fell below half of their best and stayed there: no mean of five steps that ends in the
/// last ones reaches half of the highest.
bool has_collapsed(const std::vector<double>& rewards, int64_t last);

Json to_json(const Outcome& outcome);
/// Reads what to_json wrote; `place` names it in errors.
Outcome parse_outcome(const Json& json, const std::string& place);

/// What is measured of any of them.
std::set<std::string> collect_measure_names(const std::vector<Outcome>& outcomes);

/// A row for each run: variant, seed, and each measure that any of them has.
std::string outcomes_csv(const std::vector<Outcome>& outcomes);
/// Reads such a table, as one that was written down with a study.
std::vector<Outcome> read_outcomes_csv(const std::filesystem::path& file);

}  // namespace keel
