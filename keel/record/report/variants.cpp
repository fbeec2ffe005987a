#include "keel/record/report/variants.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "keel/record/report/report_parts.h"

namespace keel {
namespace {

/// Removes "-SEED" at the end of path parts, as in the folders of a study.
std::string remove_seed(std::string value, const std::string& seed) {
  const std::string ending = "-" + seed;
  for (size_t at = 0; !seed.empty() && (at = value.find(ending, at)) != std::string::npos; ++at) {
    const size_t end = at + ending.size();
    if (end == value.size() || value[end] == '/') value.erase(at, ending.size());
  }
  return value;
}

/// Joins all settings except the seed; empty if the seed is unknown.
std::string settings_without_seed(const RunData& run) {
  const auto settings = effective_settings(run);
  const auto found = settings.find("run.seed");
  if (found == settings.end()) return "";
  std::string text = "seeds\n";
  for (const auto& [path, value] : settings)
    if (path != "run.seed" && path != "run.name" && path != "run.dir" && path != "run.id")
      text += path + "\n" + remove_seed(value, found->second) + "\n";
  return text;
}

/// The common prefix of the names: "drpo" for drpo-1 and drpo-2.
std::string common_name(const std::vector<RunData>& runs, const SeedVariant& variant) {
  std::string name = runs[variant.runs[0]].name;
  for (const size_t i : variant.runs) {
    const auto [here, there] = std::mismatch(name.begin(), name.end(), runs[i].name.begin(), runs[i].name.end());
    name.erase(here, name.end());
  }
  while (!name.empty() && std::string_view("-_./ =0123456789").find(name.back()) != std::string_view::npos)
    name.pop_back();
  for (const std::string_view word : {"seed", "s"}) {
    const bool is_word =
        name == word || (name.ends_with(word) && name.size() > word.size() &&
                         std::string_view("-_./ ").find(name[name.size() - word.size() - 1]) != std::string_view::npos);
    if (is_word) name.resize(name.size() - std::min(name.size(), word.size() + 1));
  }
  if (name.empty()) name = runs[variant.runs[0]].name + " and others";
  return name + " (" + std::to_string(variant.runs.size()) + " seeds)";
}

/// Mean, minimum and maximum at the steps that all curves have.
ChartLine aggregate_seeds(const std::vector<std::vector<ChartPoint>>& curves) {
  std::map<double, std::vector<double>> values;
  for (const auto& curve : curves)
    for (const ChartPoint& point : curve)
      if (is_plottable(point.y)) values[point.x].push_back(point.y);
  ChartLine line;
  for (const auto& [x, ys] : values) {
    if (ys.size() != curves.size()) continue;
    double sum = 0;
    for (const double y : ys) sum += y;
    line.points.push_back({x, sum / static_cast<double>(ys.size())});
    line.low.push_back({x, *std::ranges::min_element(ys)});
    line.high.push_back({x, *std::ranges::max_element(ys)});
  }
  return line;
}

}  // namespace

std::vector<SeedVariant> group_by_seed(const std::vector<RunData>& runs) {
  std::vector<SeedVariant> variants;
  std::map<std::string, size_t> known;
  std::map<std::string, int> num_runs;  // by settings and seed; a repeated seed is a separate variant
  for (size_t i = 0; i < runs.size(); ++i) {
    std::string key = settings_without_seed(runs[i]);
    key =
        key.empty() ? "run " + std::to_string(i) : key + std::to_string(num_runs[key + setting(runs[i], "run.seed")]++);
    const auto [found, is_new] = known.emplace(key, variants.size());
    if (is_new) variants.push_back({runs[i].name, {}});
    variants[found->second].runs.push_back(i);
  }
  for (SeedVariant& variant : variants)
    if (variant.runs.size() > 1) variant.name = common_name(runs, variant);
  return variants;
}

std::vector<ChartLine> variant_lines(const std::vector<RunData>& runs, std::string_view phase, std::string_view key) {
  std::vector<ChartLine> lines;
  const std::vector<SeedVariant> variants = group_by_seed(runs);
  for (size_t v = 0; v < variants.size(); ++v) {
    std::vector<std::vector<ChartPoint>> curves;
    for (const size_t i : variants[v].runs) {
      std::vector<ChartPoint> points = metric_curve(runs[i], phase, key);
      if (!points.empty()) curves.push_back(std::move(points));
    }
    if (curves.empty()) continue;
    ChartLine line = curves.size() == 1 ? ChartLine{"", std::move(curves[0]), 0} : aggregate_seeds(curves);
    line.name = variants[v].name;
    line.color = static_cast<int>(v);
    if (!line.points.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<ChartMark> variant_marks(const std::vector<RunData>& runs) {
  std::vector<ChartMark> marks;
  const std::vector<SeedVariant> variants = group_by_seed(runs);
  for (size_t v = 0; v < variants.size(); ++v) {
    std::vector<ChartMark> marks_of_variant;
    std::vector<std::vector<ChartPoint>> curves;
    for (const size_t i : variants[v].runs) {
      std::vector<ChartPoint>& means = curves.emplace_back();
      for (const EvalPoint& eval : summarize(runs[i]).evals) {
        const auto step = static_cast<double>(eval.step);
        means.push_back({step, eval.mean});
        marks_of_variant.push_back({step, eval.mean, eval.low, eval.high, "", static_cast<int>(v)});
      }
    }
    if (curves.size() > 1) {
      const ChartLine line = aggregate_seeds(curves);
      marks_of_variant.clear();
      for (size_t k = 0; k < line.points.size(); ++k)
        marks_of_variant.push_back(
            {line.points[k].x, line.points[k].y, line.low[k].y, line.high[k].y, "", static_cast<int>(v)});
    }
    for (size_t k = 0; k < marks_of_variant.size(); ++k)
      if (has_marker(k, marks_of_variant.size())) marks.push_back(marks_of_variant[k]);
  }
  return marks;
}

}  // namespace keel
