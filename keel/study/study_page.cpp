#include <algorithm>
#include <map>

#include "keel/core/strings.h"
#include "keel/record/charts/html.h"
#include "keel/record/charts/svg_chart.h"
#include "keel/study/study_tables.h"

namespace keel {
namespace {

constexpr const char* kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;color:#1b1f24;"
    "background:#fff}table{border-collapse:collapse;display:block;overflow-x:auto}td,th{padding:.3rem .6rem;"
    "border-bottom:1px solid #d8dee4;text-align:left;white-space:nowrap}.charts{display:grid;gap:1rem;"
    "grid-template-columns:repeat(auto-fill,minmax(20rem,1fr))}figure{margin:0}svg{width:100%;height:auto}"
    "@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}td,th{border-color:#30363d}}";

std::vector<ChartPoint> curve(const std::vector<double>& rewards) {
  std::vector<ChartPoint> points;
  for (size_t i = 0; i < rewards.size(); ++i) points.push_back({static_cast<double>(i + 1), rewards[i]});
  return points;
}

/// Step by step over the runs that came so far.
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

/// Markdown's table as HTML's.
std::string html_table(const std::string& markdown) {
  std::string out = "<table>";
  size_t number = 0;
  for (size_t begin = 0; begin < markdown.size(); ++number) {
    const size_t end = markdown.find('\n', begin);
    const std::string line = markdown.substr(begin, end - begin);
    begin = end + 1;
    if (number == 1) continue;  // the line under the head
    const std::string tag = number == 0 ? "th" : "td";
    out += "<tr>";
    for (size_t cell = 2; cell < line.size();) {
      const size_t stop = std::min(line.find('|', cell), line.size());
      out += "<" + tag + ">" + escape_html(trimmed(line.substr(cell, stop - cell))) + "</" + tag + ">";
      cell = stop + 2;
    }
    out += "</tr>";
  }
  return out + "</table>";
}

}  // namespace

std::string study_page(const Study& study, const std::vector<VariantSummary>& variants,
                       const std::vector<Outcome>& outcomes) {
  std::map<std::string, std::vector<const Outcome*>> runs;
  for (const Outcome& outcome : outcomes) runs[outcome.variant].push_back(&outcome);
  Chart all{.id = "all", .title = "Mean reward of the runs", .width = 1040, .height = 380, .from_zero = true};
  std::string single;
  int color = 0;
  for (const Variant& variant : study.variants) {
    const auto found = runs.find(variant.name);
    if (found == runs.end()) continue;
    all.lines.push_back({variant.name, curve(mean_curve(found->second)), color});
    Chart chart{.id = "v" + std::to_string(color), .title = variant.name, .from_zero = true};
    for (const Outcome* run : found->second) chart.lines.push_back({"", curve(run->rewards), color});
    single += "<figure>" + svg_chart(chart) + "</figure>";
    ++color;
  }
  return "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
         "content=\"width=device-width\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
         "style-src 'unsafe-inline'\"><title>" +
         escape_html(study.name) + "</title><style>" + kStyle + "</style></head><body><h1>" + escape_html(study.name) +
         "</h1><p>Means over seeds with 95 % intervals; collapsed: the runs that fell below half of their best five "
         "steps and stayed there.</p>" +
         html_table(markdown_table(study, variants)) + "<figure>" + svg_chart(all) + "</figure><div class=\"charts\">" +
         single + "</div></body></html>\n";
}

}  // namespace keel
