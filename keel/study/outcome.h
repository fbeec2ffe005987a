#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "keel/core/json.h"

namespace keel {

// Results of the runs of a study.

/// Names of the measures of every run, in addition to StudyOptions::measures.
namespace measure {
inline constexpr const char* kFinal = "final";          // mean reward over the last steps
inline constexpr const char* kEarly = "early";          // mean reward over equally many first steps
inline constexpr const char* kBest = "best";            // maximum mean of five consecutive steps
inline constexpr const char* kCollapsed = "collapsed";  // 1 if the run fell below half of that and stayed there
inline constexpr const char* kBefore = "eval_before";   // accuracy or mean reward before RL
inline constexpr const char* kAfter = "eval_after";     // and after RL
}  // namespace measure

struct Outcome {
  std::string variant;
  uint64_t seed = 0;
  std::map<std::string, double> measures;  // without the missing ones
  std::vector<double> rewards = {};        // per step, for the curves
};

/// Measures a finished run. "final" and `metrics` are means over the `last` steps, at most a third of all.
Outcome measure_run(const std::filesystem::path& run, int64_t last, const std::vector<std::string>& metrics);

/// Returns the names of a run's RL metrics in metrics.jsonl.
std::vector<std::string> metric_names(const std::filesystem::path& run);

/// Returns whether the rewards fell below half of their best and stayed there: no mean of five steps that ends within
/// the last steps reaches half of the maximum.
bool has_collapsed(const std::vector<double>& rewards, int64_t last);

Json to_json(const Outcome& outcome);
/// Reads the output of to_json(); errors name `location`.
Outcome parse_outcome(const Json& json, const std::string& location);

/// Returns the names of all measures of any run.
std::set<std::string> collect_measure_names(const std::vector<Outcome>& outcomes);

/// Returns a CSV table with a row per run: variant, seed and all measures.
std::string outcomes_csv(const std::vector<Outcome>& outcomes);
/// Reads the table of outcomes_csv().
std::vector<Outcome> read_outcomes_csv(const std::filesystem::path& file);

}  // namespace keel
