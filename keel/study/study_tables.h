#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "keel/evaluation/intervals.h"
#include "keel/study/outcome.h"
#include "keel/study/study.h"

namespace keel {

/// The mean of a measure over the runs of a variant.
struct Cell {
  double mean = 0;
  std::optional<Interval> interval = {};  // 95 %, over seeds, if it can be estimated
  int64_t runs = 0;
};

/// Aggregated measures of a variant.
struct VariantSummary {
  std::string name;
  int64_t runs = 0, failed = 0, collapsed = 0;
  std::map<std::string, Cell> measures = {};
  std::map<std::string, Cell> differences = {};  // of final and early rewards from the baseline, by seed
};

/// `failed` counts the failed runs of each variant.
std::vector<VariantSummary> summarize(const Study& study, const std::vector<Outcome>& outcomes,
                                      const std::map<std::string, int64_t>& failed);

/// Returns the measures in the tables, in their order.
std::vector<std::string> table_measures(const Study& study);

std::string markdown_table(const Study& study, const std::vector<VariantSummary>& variants);
std::string csv_table(const Study& study, const std::vector<VariantSummary>& variants);

/// Returns the Markdown table of study.comparisons, a row per pair of variants and measure, over the seeds of both:
/// collapses with McNemar's exact test, and mean differences with a paired t-test. Holm's correction is over all rows.
/// A p-value that the test does not give is "-". Empty without comparisons or with fewer than two seeds.
std::string comparison_table(const Study& study, const std::vector<Outcome>& outcomes);

/// Returns the reward curves of all variants as an SVG file.
std::string study_curves(const Study& study, const std::vector<Outcome>& outcomes);

/// Returns a self-contained HTML page with the table and the curves.
std::string study_page(const Study& study, const std::vector<VariantSummary>& variants,
                       const std::vector<Outcome>& outcomes);

/// A comparison of two executions of a study. All common variants and measures are tested: by Welch's t-test, or by
/// Fisher's exact test for collapses. p-values have Holm's correction.
struct StudyComparison {
  std::string table;                          // Markdown, a row per test, the smallest p first
  double min_p = 1;                           // corrected
  std::vector<std::string> only_in_one = {};  // variants and measures not compared
  int64_t same_seeds = 0;                     // runs with the same variant and seed in both
};
StudyComparison compare(const std::vector<Outcome>& ours, const std::vector<Outcome>& theirs,
                        const std::vector<std::string>& measures);

}  // namespace keel
