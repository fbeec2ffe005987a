#include "keel/record/report/learning_curve_svg.h"

#include "keel/core/console.h"
#include "keel/record/charts/html.h"
#include "keel/record/charts/svg_chart.h"
#include "keel/record/report/report_parts.h"

namespace keel {
namespace {

// Mid tones, readable on white and dark pages.
constexpr const char* kStrong = "#768390";
constexpr const char* kFontFamily = "system-ui,-apple-system,Segoe UI,Roboto,Helvetica,Arial,sans-serif";

std::string headline(const RunSummary& summary) {
  if (summary.before && summary.after) {
    return std::string(summary.after->name()) + " " + format_mean(*summary.before) + " → " +
           format_mean(*summary.after);
  }
  if (summary.after) return std::string(summary.after->name()) + " " + format_mean(*summary.after);
  return is_plottable(summary.best_reward) ? "best reward " + format_number(summary.best_reward) : "";
}

}  // namespace

std::string learning_curve_svg(const RunData& run) {
  const RunSummary summary = summarize(run);
  Chart chart;
  chart.id = "learning-curve";
  chart.title = run.name;
  chart.width = 760;
  chart.height = 300;
  chart.lines.push_back({"mean reward", metric_curve(run, "rl", "reward/mean"), 5});
  chart.window = smoothing_window(chart.lines[0].points.size());
  for (size_t i = 0; i < summary.evals.size(); ++i) {
    const EvalPoint& eval = summary.evals[i];
    const bool end = i == 0 || i + 1 == summary.evals.size();
    chart.marks.push_back({static_cast<double>(eval.step), eval.mean, eval.low, eval.high, end ? format_mean(eval) : "",
                           1, i == 0 && summary.evals.size() > 1});
  }
  const std::string reward_name = chart.window > 1 ? "mean reward (bold: average over " +
                                                         format_count(static_cast<int64_t>(chart.window)) + " steps)"
                                                   : "mean reward";
  const std::string title = escape_untrusted(run.name + (headline(summary).empty() ? "" : ": " + headline(summary)));
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"356\" viewBox=\"0 0 760 356\" role=\"img\" "
      "aria-labelledby=\"learning-curve-title\" font-family=\"" +
      std::string(kFontFamily) + "\" font-size=\"13\"><title id=\"learning-curve-title\">" + title + "</title>";
  out += "<text x=\"56\" y=\"22\" font-size=\"16\" font-weight=\"600\" fill=\"" + std::string(kStrong) + "\">" + title +
         "</text>";
  out += "<g fill=\"" + std::string(kStrong) +
         "\"><rect x=\"56\" y=\"38\" width=\"16\" height=\"3\" rx=\"1.5\" fill=\"" + chart_color(5) +
         "\"/><text x=\"79\" y=\"44\">" + reward_name + "</text>";
  if (!summary.evals.empty()) {
    out += "<circle cx=\"404\" cy=\"40\" r=\"4\" fill=\"" + chart_color(1) +
           "\"/><text x=\"414\" y=\"44\">evaluation " + summary.evals.back().name() + ", 95 % interval</text>";
  }
  return out + "</g><g transform=\"translate(0 52)\">" + chart_group(chart) + "</g></svg>\n";
}

}  // namespace keel
