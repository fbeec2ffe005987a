#include <algorithm>
#include <cmath>

#include "keel/core/console.h"
#include "keel/record/charts/html.h"
#include "keel/record/report/health.h"
#include "keel/record/report/report_parts.h"

namespace keel {
namespace {

constexpr size_t kMaxSamples = 4;

std::string band_text(double low, double high) {
  if (std::isinf(low)) return "at most " + format_number(high);
  if (std::isinf(high)) return "at least " + format_number(low);
  return format_number(low) + " to " + format_number(high);
}

std::string band_verdict(const Health& health) {
  if (health.baseline_steps == 0)
    return "Too few RL steps for a verdict: " + format_count(health.steps) + " of " + format_count(kMinStepsForHealth) +
           ".";
  const BandCheck* first = health.first();
  if (first == nullptr) return "No metric left its band.";
  return escape_html(first->name) + " left its band first, at step " + format_count(first->departure->step) + ": " +
         format_number(first->departure->value) + ", band " + band_text(first->departure->low, first->departure->high) +
         ".";
}

/// "45.0 % [41.0 %, 49.0 %] at step 20".
std::string evaluation_text(const EvalPoint& eval) {
  EvalPoint low = eval, high = eval;
  low.mean = eval.low;
  high.mean = eval.high;
  return format_mean(eval) + " [" + format_mean(low) + ", " + format_mean(high) + "] at step " +
         format_count(eval.step);
}

std::string verdict(const Health& health) {
  const std::string bands = band_verdict(health);
  return health.evaluation_fall ? describe(*health.evaluation_fall) + ". " + bands : bands;
}

/// The verdict as a paragraph, with `more` at its end.
std::string verdict_paragraph(const Health& health, const std::string& more) {
  return "<p class=\"verdict" + std::string(health.has_warning() ? " bad" : "") + "\">" + verdict(health) + more +
         "</p>";
}

/// Sorted by the step of departure.
std::string checks_table(const Health& health) {
  std::string rows;
  for (const BandCheck& check : health.checks) {
    const auto& departure = check.departure;
    rows += body_row(escape_html(check.name) + " <code>" + escape_html(check.key) + "</code>",
                     {departure ? "<b class=\"warn\">step " + format_count(departure->step) + "</b>" : "inside",
                      departure ? format_number(departure->value) + (departure->above ? ", above" : ", below") : "–",
                      departure ? band_text(departure->low, departure->high) : band_text(check.low, check.high),
                      !departure             ? "–"
                      : departure->recovered ? "inside again"
                                             : "outside"});
  }
  return "<div class=\"scroll\"><table class=\"text health\">" +
         header_row({"Metric", "Left its band", "Value", "Band", "Last step"}) + "<tbody>" + rows +
         "</tbody></table></div>";
}

std::string departure_chart(const RunData& run, const BandCheck& check, const std::string& id) {
  Chart chart;
  chart.id = id;
  chart.title = check.name;
  chart.lines.push_back({check.name, metric_curve(run, "rl", check.key), 0});
  chart.may_be_log = check.key != "reward/mean";
  if (!std::isinf(check.departure->low))
    chart.levels.push_back({check.departure->low, "band from " + format_number(check.departure->low)});
  if (!std::isinf(check.departure->high))
    chart.levels.push_back({check.departure->high, "band up to " + format_number(check.departure->high)});
  chart.marks.push_back({static_cast<double>(check.departure->step), check.departure->value, check.departure->value,
                         check.departure->value, "step " + format_count(check.departure->step), 1});
  return chart_figure(std::move(chart),
                      "Each step. The point is the first of three consecutive steps outside of the band.", "",
                      ChartSize::kWide);
}

/// Returns the samples nearest to the step, sorted by step.
std::vector<const Sample*> samples_around(const RunData& run, int64_t step) {
  std::vector<const Sample*> near;
  for (const Sample& sample : run.samples)
    if (sample.phase == "rl") near.push_back(&sample);
  const auto distance = [&](const Sample* sample) { return std::abs(sample->step - step) * 2 + (sample->step < step); };
  std::ranges::stable_sort(near, {}, distance);
  near.resize(std::min(near.size(), kMaxSamples));
  std::ranges::stable_sort(near, {}, &Sample::step);
  return near;
}

/// Returns the recorded step nearest to `step`, or 0.
int64_t nearest_recorded_step(const RunData& run, int64_t step) {
  int64_t nearest = 0, distance = 0;
  for (const RecordedCompletion& completion : run.recorded.rows.completions) {
    const int64_t gap = std::abs(completion.step - step);
    if (nearest != 0 && gap >= distance) continue;
    nearest = completion.step;
    distance = gap;
  }
  return nearest;
}

std::string run_health(const RunData& run, size_t index) {
  const Health health = check_health(run);
  std::string out = verdict_paragraph(health, "");
  if (health.baseline_steps == 0) return out;
  out +=
      "<p class=\"note\">Bands come from the run’s first " + plural(health.baseline_steps, "RL step") +
      ": the median ± six robust standard deviations (1.4826 times the median absolute deviation), at least half of "
      "the median. A metric leaves its band with three consecutive steps outside of it. The reward’s band starts at "
      "half of its best mean of five steps so far, and entropy’s lower edge is a tenth of its median. docs/report.md "
      "has the details.</p>";
  if (const BandCheck* first = health.first()) {
    out += "<div class=\"charts\">" + departure_chart(run, *first, "health-" + std::to_string(index)) + "</div>";
    const int64_t recorded = nearest_recorded_step(run, first->departure->step);
    const std::vector<const Sample*> samples = samples_around(run, first->departure->step);
    out += "<h3>Samples near this step</h3>";
    if (samples.empty()) out += "<p class=\"note\">The run has no samples.</p>";
    if (recorded > 0)
      out += "<p class=\"note\"><a href=\"#trust-region&amp;run=" + std::to_string(index) +
             "&amp;step=" + std::to_string(recorded) + "\">All recorded completions of step " + format_count(recorded) +
             "</a>, token by token.</p>";
    out += sample_cards(samples);
  }
  return out + "<h3>All bands</h3>" + checks_table(health);
}

}  // namespace

std::string describe(const EvaluationFall& fall) {
  return "Held-out " + std::string(fall.after.name()) + " fell from " + evaluation_text(fall.before) + " to " +
         evaluation_text(fall.after);
}

std::string health_line(const RunData& run) {
  const Health health = check_health(run);
  if (health.baseline_steps == 0 && !health.has_warning()) return "";
  return verdict_paragraph(health, " <a href=\"#health\">Health</a>");
}

std::string health_page(const std::vector<RunData>& runs) {
  std::string overview;
  if (runs.size() > 1) {
    for (const RunData& run : runs) overview += body_row(escape_untrusted(run.name), {verdict(check_health(run))});
    overview = "<div class=\"scroll\"><table class=\"text\">" + header_row({"Run", "Verdict"}) + "<tbody>" + overview +
               "</tbody></table></div>";
  }
  return "<h2>Health</h2>" + overview + render_each_run(runs, run_health);
}

}  // namespace keel
