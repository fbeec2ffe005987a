#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "keel/evaluation/intervals.h"
#include "keel/study/outcome.h"
#include "keel/study/study.h"

namespace keel {

/// One number of a variant over its runs.
struct Cell {
  double mean = 0;
  std::optional<Interval> interval = {};  // 95 %, over seeds; nothing where they say nothing of their spread
  int64_t runs = 0;
};

/// What the runs of a variant say together.
struct VariantSummary {
  std::string name;
  int64_t runs = 0, failed = 0, collapsed = 0;
  std::map<std::string, Cell> measures = {};
  std::map<std::string, Cell> differences = {};  // of final and early rewards to the baseline's, seed by seed
};

/// `failed`: runs of each variant that did not come to their end.
std::vector<VariantSummary> summarize(const Study& study, const std::vector<Outcome>& outcomes,
                                      const std::map<std::string, int64_t>& failed);

/// The measures that stand in the tables, in their order.
std::vector<std::string> table_measures(const Study& study);

std::string markdown_table(const Study& study, const std::vector<VariantSummary>& variants);
std::string csv_table(const Study& study, const std::vector<VariantSummary>& variants);

/// The rewards of each variant's runs over steps, as one SVG file.
std::string study_curves(const Study& study, const std::vector<Outcome>& outcomes);

/// One self-contained page: the table and the curves.
std::string study_page(const Study& study, const std::vector<VariantSummary>& variants,
                       const std::vector<Outcome>& outcomes);

/// Whether two measurements of the same study agree: every variant and measure that both have is tested (Welch's t
/// test; Fisher's exact one for collapses), corrected by Holm over all of them.
struct StudyComparison {
  std::string table;                          // Markdown: a row for each test, the least likely first
  double least_p = 1;                         // corrected
  std::vector<std::string> only_in_one = {};  // variants and measures that were not compared
  int64_t same_seeds = 0;                     // runs of a variant and seed that both have
};
StudyComparison compare(const std::vector<Outcome>& ours, const std::vector<Outcome>& theirs,
                        const std::vector<std::string>& measures);

}  // namespace keel
