#include "keel/study/study_tables.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/record/charts/chart_scale.h"
#include "keel/study/two_samples.h"

namespace keel {
namespace {

const std::vector<std::string> kBaselineMeasures = {measure::kFinal, measure::kEarly};  // compared with the baseline

Cell make_cell(const std::vector<double>& values) {
  return {moments_of(values).mean, mean_interval(values), static_cast<int64_t>(values.size())};
}

/// Formats a number with three decimals, or with four significant digits if it is huge.
std::string format_cell(double value) {
  return std::abs(value) < 1e9 || std::isinf(value) ? fixed(value, 3) : format_number(value, 4);
}

std::string format_cell(const Cell& cell) {
  const std::string interval =
      cell.interval ? " [" + format_cell(cell.interval->first) + ", " + format_cell(cell.interval->second) + "]" : "";
  return format_cell(cell.mean) + interval;
}

/// Formats a metric, with two significant digits if it is small.
std::string format_metric(const Cell& cell) {
  if (std::abs(cell.mean) >= 0.01 || cell.mean == 0) return format_cell(cell);
  const std::string interval = cell.interval ? " [" + format_number(cell.interval->first, 2) + ", " +
                                                   format_number(cell.interval->second, 2) + "]"
                                             : "";
  return format_number(cell.mean, 2) + interval;
}

std::map<std::string, std::vector<double>> values_by_variant(const std::vector<Outcome>& outcomes,
                                                             const std::string& measure) {
  std::map<std::string, std::vector<double>> values;
  for (const Outcome& outcome : outcomes)
    if (const auto found = outcome.measures.find(measure); found != outcome.measures.end())
      values[outcome.variant].push_back(found->second);
  return values;
}

/// Formats a Markdown table with aligned columns.
std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows[0].size(), 3);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string table;
  const auto add = [&](const auto& cell_at) {
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string cell = cell_at(i);
      table += "| " + cell + std::string(widths[i] - cell.size() + 1, ' ');
    }
    table += "|\n";
  };
  add([&](size_t i) { return rows[0][i]; });
  add([&](size_t i) { return std::string(widths[i], '-'); });
  for (size_t row = 1; row < rows.size(); ++row) add([&](size_t i) { return rows[row][i]; });
  return table;
}

/// Values of a measure in the runs of two variants with the same seed.
using ValuePairs = std::vector<std::pair<double, double>>;

ValuePairs pair_by_seed(const std::vector<Outcome>& outcomes, const std::string& variant, const std::string& other,
                        const std::string& measure) {
  std::map<uint64_t, double> other_values;
  for (const Outcome& outcome : outcomes)
    if (outcome.variant == other && outcome.measures.contains(measure))
      other_values[outcome.seed] = outcome.measures.at(measure);
  ValuePairs pairs;
  for (const Outcome& outcome : outcomes)
    if (outcome.variant == variant && outcome.measures.contains(measure) && other_values.contains(outcome.seed))
      pairs.emplace_back(outcome.measures.at(measure), other_values.at(outcome.seed));
  return pairs;
}

struct PairedComparison {
  std::string difference;   // formatted
  std::optional<double> p;  // missing if the test says nothing
};

PairedComparison compare_means(const ValuePairs& pairs) {
  std::vector<double> differences;
  for (const auto& [value, other_value] : pairs) differences.push_back(value - other_value);
  const Moments moments = moments_of(differences);
  const double error = moments.deviation / std::sqrt(static_cast<double>(differences.size()));
  return {format_cell(moments.mean) + " +- " + format_cell(error), paired_test(differences)};
}

PairedComparison compare_collapses(const ValuePairs& pairs) {
  int64_t collapsed = 0, other_collapsed = 0, both = 0;
  for (const auto& [value, other_value] : pairs) {
    collapsed += value != 0 ? 1 : 0;
    other_collapsed += other_value != 0 ? 1 : 0;
    both += value != 0 && other_value != 0 ? 1 : 0;
  }
  const int64_t alone = collapsed - both, other_alone = other_collapsed - both;
  return {std::to_string(collapsed) + " vs " + std::to_string(other_collapsed) + " (alone " + std::to_string(alone) +
              " vs " + std::to_string(other_alone) + ")",
          mcnemar_test(alone, other_alone)};
}

}  // namespace

std::vector<std::string> table_measures(const Study& study) {
  std::vector<std::string> names = {measure::kFinal, measure::kEarly, measure::kBest, measure::kBefore,
                                    measure::kAfter};
  names.insert(names.end(), study.options.measures.begin(), study.options.measures.end());
  return names;
}

std::vector<VariantSummary> summarize(const Study& study, const std::vector<Outcome>& outcomes,
                                      const std::map<std::string, int64_t>& failed) {
  std::map<uint64_t, const Outcome*> baseline_runs;  // by seed
  for (const Outcome& outcome : outcomes)
    if (outcome.variant == study.options.baseline) baseline_runs[outcome.seed] = &outcome;
  std::vector<VariantSummary> summaries;
  for (const Variant& variant : study.variants) {
    VariantSummary summary{.name = variant.name};
    if (const auto count = failed.find(variant.name); count != failed.end()) summary.failed = count->second;
    std::map<std::string, std::vector<double>> differences;
    for (const Outcome& outcome : outcomes) {
      if (outcome.variant != variant.name) continue;
      ++summary.runs;
      summary.collapsed += outcome.measures.at(measure::kCollapsed) != 0 ? 1 : 0;
      const auto same_seed = baseline_runs.find(outcome.seed);
      if (same_seed == baseline_runs.end() || variant.name == study.options.baseline) continue;
      for (const std::string& name : kBaselineMeasures)
        differences[name].push_back(outcome.measures.at(name) - same_seed->second->measures.at(name));
    }
    for (const std::string& name : table_measures(study))
      if (const auto values = values_by_variant(outcomes, name); values.contains(variant.name))
        summary.measures[name] = make_cell(values.at(variant.name));
    for (const auto& [name, values] : differences) summary.differences[name] = make_cell(values);
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

std::string markdown_table(const Study& study, const std::vector<VariantSummary>& variants) {
  std::vector<std::string> names;
  for (const std::string& name : table_measures(study))
    if (std::ranges::any_of(variants, [&](const VariantSummary& v) { return v.measures.contains(name); }))
      names.push_back(name);
  const bool any_failed = std::ranges::any_of(variants, [](const VariantSummary& v) { return v.failed > 0; });
  std::vector<std::string> header = {"variant", "runs"};
  if (any_failed) header.push_back("failed");
  header.push_back("collapsed");
  for (const std::string& name : names) {
    header.push_back(name);
    if (std::ranges::count(kBaselineMeasures, name)) header.push_back(name + " minus " + study.options.baseline);
  }
  std::vector<std::vector<std::string>> rows = {header};
  for (const VariantSummary& variant : variants) {
    const auto [low, high] = wilson_interval(static_cast<double>(variant.collapsed), static_cast<double>(variant.runs));
    std::vector<std::string> cells = {variant.name, std::to_string(variant.runs)};
    if (any_failed) cells.push_back(std::to_string(variant.failed));
    cells.push_back(variant.runs == 0
                        ? ""
                        : std::to_string(variant.collapsed) + " [" + fixed(low, 2) + ", " + fixed(high, 2) + "]");
    for (const std::string& name : names) {
      const auto cell = variant.measures.find(name);
      cells.push_back(cell == variant.measures.end() ? "" : format_metric(cell->second));
      const auto difference = variant.differences.find(name);
      if (std::ranges::count(kBaselineMeasures, name))
        cells.push_back(difference == variant.differences.end() ? "" : format_cell(difference->second));
    }
    rows.push_back(cells);
  }
  return format_table(rows);
}

std::string csv_table(const Study& study, const std::vector<VariantSummary>& variants) {
  std::string table = "variant,measure,runs,mean,low,high\n";
  const auto add = [&](const std::string& variant, const std::string& name, const Cell& cell) {
    table += variant + "," + name + "," + std::to_string(cell.runs) + "," + format_number(cell.mean, 9) + ",";
    if (cell.interval) table += format_number(cell.interval->first, 9) + "," + format_number(cell.interval->second, 9);
    table += cell.interval ? "\n" : ",\n";
  };
  for (const VariantSummary& variant : variants) {
    if (variant.runs == 0) continue;
    const double runs = static_cast<double>(variant.runs), collapsed = static_cast<double>(variant.collapsed);
    add(variant.name, measure::kCollapsed, {collapsed / runs, wilson_interval(collapsed, runs), variant.runs});
    for (const std::string& name : table_measures(study))
      if (const auto cell = variant.measures.find(name); cell != variant.measures.end())
        add(variant.name, name, cell->second);
    for (const auto& [name, cell] : variant.differences)
      add(variant.name, name + "_less_" + study.options.baseline, cell);
  }
  return table;
}

std::string comparison_table(const Study& study, const std::vector<Outcome>& outcomes) {
  std::vector<std::vector<std::string>> rows = {{"comparison", "measure", "seeds", "difference", "p", "p, corrected"}};
  std::vector<double> p_values;
  std::vector<size_t> tested_rows;  // the row of each p-value
  for (const std::string& comparison : study.options.comparisons) {
    const auto [variant, other] = compared_variants(comparison);
    for (const std::string name : {measure::kCollapsed, measure::kEarly, measure::kFinal, measure::kAfter}) {
      const ValuePairs pairs = pair_by_seed(outcomes, variant, other, name);
      if (pairs.size() < 2) continue;
      const auto [difference, p] = name == measure::kCollapsed ? compare_collapses(pairs) : compare_means(pairs);
      if (p) p_values.push_back(*p), tested_rows.push_back(rows.size());
      rows.push_back({comparison, name, std::to_string(pairs.size()), difference, p ? format_number(*p, 2) : "-", "-"});
    }
  }
  if (rows.size() == 1) return "";
  const std::vector<double> corrected = holm_corrected(p_values);
  for (size_t i = 0; i < corrected.size(); ++i) rows[tested_rows[i]].back() = format_number(corrected[i], 2);
  return format_table(rows);
}

StudyComparison compare(const std::vector<Outcome>& ours, const std::vector<Outcome>& theirs,
                        const std::vector<std::string>& measures) {
  struct Test {
    std::string variant, measure, ours, theirs;
  };
  std::vector<Test> tests;
  std::vector<double> p_values;
  StudyComparison comparison;
  std::vector<std::string> tested_measures = {measure::kCollapsed};
  tested_measures.insert(tested_measures.end(), measures.begin(), measures.end());
  std::set<std::string> our_variants, their_variants;
  for (const Outcome& outcome : ours) our_variants.insert(outcome.variant);
  for (const Outcome& outcome : theirs) their_variants.insert(outcome.variant);
  std::ranges::set_symmetric_difference(our_variants, their_variants, std::back_inserter(comparison.only_in_one));
  const std::set<std::string> our_measures = collect_measure_names(ours),
                              their_measures = collect_measure_names(theirs);
  std::ranges::set_symmetric_difference(our_measures, their_measures, std::back_inserter(comparison.only_in_one));
  std::set<std::pair<std::string, uint64_t>> seeds;
  for (const Outcome& outcome : theirs) seeds.emplace(outcome.variant, outcome.seed);
  for (const Outcome& outcome : ours) comparison.same_seeds += seeds.contains({outcome.variant, outcome.seed}) ? 1 : 0;
  for (const std::string& measure : tested_measures) {
    const auto our_values = values_by_variant(ours, measure), their_values = values_by_variant(theirs, measure);
    for (const auto& [variant, values] : our_values) {
      const auto found = their_values.find(variant);
      if (found == their_values.end()) continue;
      const bool is_count = measure == measure::kCollapsed;
      if (values.size() < 2 || found->second.size() < 2)
        fail(ExitCode::kBadInput, variant, ": ", measure, " has ", std::min(values.size(), found->second.size()),
             " runs; a comparison needs at least two on each side");
      const auto count_of = [](const std::vector<double>& list) { return static_cast<int64_t>(list.size()); };
      const auto sum_of = [](const std::vector<double>& list) {
        return static_cast<int64_t>(std::accumulate(list.begin(), list.end(), 0.0));
      };
      const auto format_values = [&](const std::vector<double>& list) {
        return is_count ? std::to_string(sum_of(list)) + " of " + std::to_string(list.size())
                        : format_cell(make_cell(list));
      };
      p_values.push_back(
          is_count ? fisher_test(sum_of(values), count_of(values), sum_of(found->second), count_of(found->second))
                   : welch_test(values, found->second));
      tests.push_back({variant, measure, format_values(values), format_values(found->second)});
    }
  }
  if (tests.empty())
    fail(ExitCode::kBadInput, "the two studies have no variant and measure in common with two runs each");
  const std::vector<double> corrected = holm_corrected(p_values);
  std::vector<size_t> order(tests.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return p_values[i]; });
  std::vector<std::vector<std::string>> rows = {
      {"variant", "measure", "this study", "other study", "p", "p, corrected"}};
  for (const size_t i : order)
    rows.push_back({tests[i].variant, tests[i].measure, tests[i].ours, tests[i].theirs, format_number(p_values[i], 2),
                    format_number(corrected[i], 2)});
  comparison.table = format_table(rows);
  comparison.min_p = *std::ranges::min_element(corrected);
  return comparison;
}

}  // namespace keel
