#include <algorithm>
#include <cmath>

#include "keel/core/console.h"
#include "keel/record/charts/html.h"
#include "keel/record/report/health.h"
#include "keel/record/report/report_parts.h"

namespace keel {
namespace {

constexpr size_t kSamplesBehind = 4;

std::string band_text(double low, double high) {
  if (std::isinf(low)) return "at most " + format_number(high);
  if (std::isinf(high)) return "at least " + format_number(low);
  return format_number(low) + " to " + format_number(high);
}

std::string verdict(const Health& health) {
  if (health.first_part == 0)
    return "Too few RL steps to judge by: " + format_count(health.steps) + " of " +
           format_count(kFewestStepsForHealth) + ".";
  const BandCheck* first = health.first();
  if (first == nullptr) return "No metric left its band.";
  return escape_html(first->name) + " left its band first, at step " + format_count(first->left->step) + ": " +
         format_number(first->left->value) + ", band " + band_text(first->left->low, first->left->high) + ".";
}

/// In the order in which they left.
std::string table_of_checks(const Health& health) {
  std::string rows;
  for (const BandCheck& check : health.checks) {
    const auto& left = check.left;
    rows += body_row(escape_html(check.name) + " <code>" + escape_html(check.key) + "</code>",
                     {left ? "<b class=\"warn\">step " + format_count(left->step) + "</b>" : "inside",
                      left ? format_number(left->value) + (left->above ? ", above" : ", below") : "–",
                      left ? band_text(left->low, left->high) : band_text(check.low, check.high),
                      !left             ? "–"
                      : left->came_back ? "inside again"
                                        : "outside"});
  }
  return "<div class=\"scroll\"><table class=\"text health\">" +
         header_row({"Metric", "Left its band", "With", "Band", "Last step"}) + "<tbody>" + rows +
         "</tbody></table></div>";
}

std::string chart_of_leave(const RunData& run, const BandCheck& check, const std::string& id) {
  Chart chart;
  chart.id = id;
  chart.title = check.name;
  chart.lines.push_back({check.name, metric_curve(run, "rl", check.key), 0});
  chart.may_be_log = check.key != "reward/mean";
  if (!std::isinf(check.left->low))
    chart.levels.push_back({check.left->low, "band from " + format_number(check.left->low)});
  if (!std::isinf(check.left->high))
    chart.levels.push_back({check.left->high, "band up to " + format_number(check.left->high)});
  chart.marks.push_back({static_cast<double>(check.left->step), check.left->value, check.left->value, check.left->value,
                         "step " + format_count(check.left->step), 1});
  return chart_figure(std::move(chart),
                      "Each step. The point is the first of three steps in a row outside of the band.", "",
                      ChartSize::kWide);
}

/// The samples of the step, or of the steps around it, nearest first.
std::vector<const Sample*> samples_around(const RunData& run, int64_t step) {
  std::vector<const Sample*> near;
  for (const Sample& sample : run.samples)
    if (sample.phase == "rl") near.push_back(&sample);
  const auto distance = [&](const Sample* sample) { return std::abs(sample->step - step) * 2 + (sample->step < step); };
  std::ranges::stable_sort(near, {}, distance);
  near.resize(std::min(near.size(), kSamplesBehind));
  std::ranges::stable_sort(near, {}, &Sample::step);
  return near;
}

/// The recorded step nearest to it, that the reader can be sent to; 0: none.
int64_t recorded_step_near(const RunData& run, int64_t step) {
  int64_t nearest = 0, distance = 0;
  for (const RecordedCompletion& completion : run.recorded.rows.completions) {
    const int64_t away = std::abs(completion.step - step);
    if (nearest != 0 && away >= distance) continue;
    nearest = completion.step;
    distance = away;
  }
  return nearest;
}

std::string health_of(const RunData& run, size_t place) {
  const Health health = check_health(run);
  std::string out =
      "<p class=\"verdict" + std::string(health.first() != nullptr ? " bad" : "") + "\">" + verdict(health) + "</p>";
  if (health.first_part == 0) return out;
  out +=
      "<p class=\"note\">Bands are made from the run’s own first " + plural(health.first_part, "RL step") +
      ": the median, and six robust standard deviations (1.4826 times the median absolute deviation) on either side, "
      "at "
      "least half of the median; a metric leaves its band with three steps in a row outside of it. The reward’s band "
      "begins at half of its best mean of five steps so far, and entropy’s lower edge is a tenth of its median. "
      "docs/report.md has the details.</p>";
  if (const BandCheck* first = health.first()) {
    out += "<div class=\"charts\">" + chart_of_leave(run, *first, "health-" + std::to_string(place)) + "</div>";
    const int64_t recorded = recorded_step_near(run, first->left->step);
    const std::vector<const Sample*> samples = samples_around(run, first->left->step);
    out += "<h3>Samples behind it</h3>";
    if (samples.empty()) out += "<p class=\"note\">The run has written no samples.</p>";
    if (recorded > 0)
      out += "<p class=\"note\"><a href=\"#trust-region&amp;run=" + std::to_string(place) +
             "&amp;step=" + std::to_string(recorded) + "\">All recorded completions of step " + format_count(recorded) +
             "</a>, token by token.</p>";
    out += sample_cards(samples);
  }
  return out + "<h3>All bands</h3>" + table_of_checks(health);
}

}  // namespace

std::string health_line(const RunData& run) {
  const Health health = check_health(run);
  if (health.first_part == 0) return "";
  return "<p class=\"verdict" + std::string(health.first() != nullptr ? " bad" : "") + "\">" + verdict(health) +
         " <a href=\"#health\">Health</a></p>";
}

std::string health_page(const std::vector<RunData>& runs) {
  std::string overview;
  if (runs.size() > 1) {
    for (const RunData& run : runs) overview += body_row(escape_untrusted(run.name), {verdict(check_health(run))});
    overview = "<div class=\"scroll\"><table class=\"text\">" + header_row({"Run", "Verdict"}) + "<tbody>" + overview +
               "</tbody></table></div>";
  }
  return "<h2>Health</h2>" + overview + of_each_run(runs, health_of);
}

}  // namespace keel
