#include <algorithm>
#include <map>

#include "keel/core/console.h"
#include "keel/core/strings.h"
#include "keel/record/charts/html.h"
#include "keel/record/charts/svg_chart.h"
#include "keel/study/study_tables.h"

namespace keel {
namespace {

constexpr const char* kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;color:#1b1f24;"
    "background:#fff}table{border-collapse:collapse;display:block;overflow-x:auto}td,th{padding:.3rem .6rem;"
    "border-bottom:1px solid #d8dee4;text-align:left;white-space:nowrap}figure{margin:0}svg{width:100%;height:auto}"
    "@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}td,th{border-color:#30363d}}";

std::vector<ChartPoint> chart_points(const std::vector<double>& rewards) {
  std::vector<ChartPoint> points;
  for (size_t i = 0; i < rewards.size(); ++i) points.push_back({static_cast<double>(i + 1), rewards[i]});
  return points;
}

/// Returns the mean of each step over the runs that reached it.
std::vector<double> mean_curve(const std::vector<const Outcome*>& runs) {
  std::vector<double> sums, counts;
  for (const Outcome* run : runs)
    for (size_t i = 0; i < run->rewards.size(); ++i) {
      if (i == sums.size()) sums.push_back(0), counts.push_back(0);
      sums[i] += run->rewards[i];
      counts[i] += 1;
    }
  for (size_t i = 0; i < sums.size(); ++i) sums[i] /= counts[i];
  return sums;
}

/// Converts a Markdown table to HTML.
std::string html_table(const std::string& markdown) {
  std::string out = "<table>";
  size_t line_index = 0;
  for (size_t begin = 0; begin < markdown.size(); ++line_index) {
    const size_t end = markdown.find('\n', begin);
    const std::string line = markdown.substr(begin, end - begin);
    begin = end + 1;
    if (line_index == 1) continue;  // the separator line
    const std::string tag = line_index == 0 ? "th" : "td";
    out += "<tr>";
    for (size_t cell = 2; cell < line.size();) {
      const size_t cell_end = std::min(line.find('|', cell), line.size());
      out += "<" + tag + ">" + escape_html(trimmed(line.substr(cell, cell_end - cell))) + "</" + tag + ">";
      cell = cell_end + 2;
    }
    out += "</tr>";
  }
  return out + "</table>";
}

constexpr double kPanelWidth = 260, kPanelHeight = 170, kTitleHeight = 38, kTitleLeft = 56;
constexpr size_t kColumns = 4;
constexpr int kMaxTitleLength = 26;  // bold characters that fit the panel

double max_reward(const std::vector<Outcome>& outcomes) {
  double highest = 0;
  for (const Outcome& outcome : outcomes)
    for (const double reward : outcome.rewards) highest = std::max(highest, reward);
  return highest;
}

/// Plots the runs of a variant faintly, collapsed ones in another colour, and their mean.
Chart make_panel(const std::vector<const Outcome*>& runs, double highest) {
  Chart chart{.width = kPanelWidth, .height = kPanelHeight, .includes_zero = true, .min_y_top = highest};
  for (const Outcome* run : runs)
    chart.lines.push_back({"", chart_points(run->rewards), run->measures.at(measure::kCollapsed) != 0 ? 1 : 0, true});
  chart.lines.push_back({"", chart_points(mean_curve(runs)), 0});
  return chart;
}

std::string title_line(double y, const std::string& attributes, const std::string& text) {
  return "<text x=\"" + svg_number(kTitleLeft) + "\" y=\"" + svg_number(y) + "\" fill=\"#768390\"" + attributes + ">" +
         escape_html(text) + "</text>";
}

/// Returns the title of a panel: the name, condensed if it is long, and the number of collapsed runs.
std::string panel_title(const std::string& variant, const std::vector<const Outcome*>& runs) {
  std::string name_attributes = " font-weight=\"600\"";
  if (display_width(variant) > kMaxTitleLength)
    name_attributes +=
        " textLength=\"" + svg_number(kPanelWidth - kTitleLeft - 8) + "\" lengthAdjust=\"spacingAndGlyphs\"";
  const auto collapsed =
      std::ranges::count_if(runs, [](const Outcome* run) { return run->measures.at(measure::kCollapsed) != 0; });
  std::string title = title_line(16, name_attributes, variant);
  if (collapsed > 0)
    title += title_line(32, "", std::to_string(collapsed) + " of " + std::to_string(runs.size()) + " collapsed");
  return title;
}

}  // namespace

std::string study_curves(const Study& study, const std::vector<Outcome>& outcomes) {
  std::map<std::string, std::vector<const Outcome*>> runs;
  for (const Outcome& outcome : outcomes) runs[outcome.variant].push_back(&outcome);
  const double highest = max_reward(outcomes);
  std::string panels;
  size_t count = 0;
  for (const Variant& variant : study.variants) {
    const auto found = runs.find(variant.name);
    if (found == runs.end()) continue;
    const double x = static_cast<double>(count % kColumns) * kPanelWidth;
    const double y = static_cast<double>(count / kColumns) * (kPanelHeight + kTitleHeight);
    panels += "<g transform=\"translate(" + svg_number(x) + " " + svg_number(y) + ")\">" +
              panel_title(variant.name, found->second) + "<g transform=\"translate(0 " + svg_number(kTitleHeight) +
              ")\">" + chart_group(make_panel(found->second, highest)) + "</g></g>";
    ++count;
  }
  const size_t rows = (count + kColumns - 1) / kColumns;
  const std::string width = svg_number(kPanelWidth * static_cast<double>(std::min(count, kColumns))),
                    height = svg_number((kPanelHeight + kTitleHeight) * static_cast<double>(rows));
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" + height + "\" viewBox=\"0 0 " +
         width + " " + height + "\" role=\"img\" font-family=\"system-ui,sans-serif\" font-size=\"12\"><title>" +
         escape_html(study.name) + ": mean reward over steps, of each run and averaged per variant</title>" + panels +
         "</svg>\n";
}

std::string study_page(const Study& study, const std::vector<VariantSummary>& variants,
                       const std::vector<Outcome>& outcomes) {
  const std::string comparisons = comparison_table(study, outcomes);
  return "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
         "content=\"width=device-width\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
         "style-src 'unsafe-inline'\"><title>" +
         escape_html(study.name) + "</title><style>" + kStyle + "</style></head><body><h1>" + escape_html(study.name) +
         "</h1><p>Means over seeds with 95 % intervals; collapsed: runs that fell below half of their best five "
         "steps and stayed there. The curves show the mean reward per step: each run faintly, collapsed runs in "
         "another colour, and the mean of the variant.</p>" +
         html_table(markdown_table(study, variants)) + (comparisons.empty() ? "" : html_table(comparisons)) +
         "<figure>" + study_curves(study, outcomes) + "</figure></body></html>\n";
}

}  // namespace keel
