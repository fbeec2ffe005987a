#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "keel/core/console.h"
#include "keel/record/charts/html.h"
#include "keel/record/charts/svg_chart.h"
#include "keel/record/report/report_parts.h"
#include "keel/record/report/variants.h"

namespace keel {
namespace {

struct Curve {
  const char* key;
  const char* name;
  // Of the separate chart when several runs are compared; null: those of the figure.
  const char* title = nullptr;
  const char* caption = nullptr;
};

/// One chart of a report: its curves for one run, one chart per curve for several runs.
struct Figure {
  const char* phase;
  const char* title;
  const char* caption;
  std::vector<Curve> curves;
  bool percent = false, includes_zero = false, may_be_log = false;
  bool hide_if_constant = false;
};

const std::vector<Figure>& overview_figures() {
  static const std::vector<Figure> figures{
      {"rl",
       "Entropy",
       "Nats per token. An early fall to zero means that exploration has ended.",
       {{"policy/entropy", "entropy"}},
       false,
       true},
      {"rl",
       "Completion length",
       "In tokens, mean over the step’s completions.",
       {{"completion/length_mean", "mean"}},
       false,
       true},
      {"rl",
       "Truncated completions and groups without signal",
       "Fraction of completions truncated at the length limit, and of groups with equal rewards.",
       {{"completion/truncated", "truncated completions", "Truncated completions",
         "Fraction of completions truncated at the length limit."},
        {"reward/zero_std_groups", "groups with equal rewards", "Groups with equal rewards",
         "Fraction of groups whose rewards are all equal. They give no gradient."}},
       true,
       true},
      {"rl",
       "Gradient norm",
       "Mean over the step's updates, before clipping.",
       {{"optimizer/grad_norm", "gradient norm"}},
       false,
       true,
       true},
      {.phase = "rl",
       .title = "Learning rate",
       .caption = "At the step’s last update.",
       .curves = {{"optimizer/lr", "policy", "Learning rate of the policy"},
                  {"critic/lr", "critic", "Learning rate of the critic"}},
       .includes_zero = true,
       .hide_if_constant = true},
      {"rl",
       "Throughput",
       "Completion tokens per second.",
       {{"throughput/rollout_tokens_per_s", "rollout", "Throughput of rollouts", "Tokens sampled per second."},
        {"throughput/train_tokens_per_s", "training", "Throughput of training",
         "Tokens trained on per second, counted in each epoch."}},
       false,
       true},
  };
  return figures;
}

const std::vector<Figure>& trust_region_figures() {
  static const std::vector<Figure> figures{
      {"rl",
       "Tokens blocked by the trust region",
       "Fraction of tokens whose update is blocked.",
       {{"trust_region/masked", "all", "Blocked tokens"},
        {"trust_region/masked_positive", "positive advantage", "Blocked tokens with positive advantage",
         "Fraction of tokens with positive advantage whose update is blocked."},
        {"trust_region/masked_negative", "negative advantage", "Blocked tokens with negative advantage",
         "Fraction of tokens with negative advantage whose update is blocked."}},
       true,
       true},
      {"rl",
       "Divergence from the behavior policy",
       "By the method’s own measure, per token, over all updates of a step.",
       {{"trust_region/divergence_mean", "mean", "Divergence from the behavior policy, mean",
         "By the method’s own measure, mean over the tokens of all updates of a step."},
        {"trust_region/divergence_max", "maximum", "Divergence from the behavior policy, maximum",
         "By the method’s own measure, maximum over the tokens of all updates of a step."}},
       false,
       true,
       true},
  };
  return figures;
}

const Figure& mismatch_figure() {
  static const Figure figure{
      "rl",
      "Mismatch |π − μ|",
      "Trainer and sampler before the first update of each step. It is rounding error, unless the sampler uses rounded "
      "weights, is some steps behind, or an adapter is trained with dropout.",
      {{"mismatch/abs_prob_mean", "mean", "Mismatch |π − μ|, mean"},
       {"mismatch/abs_prob_max", "maximum", "Mismatch |π − μ|, maximum"}},
      false,
      true,
      true};
  return figure;
}

/// Describes the curves in text, for screen readers.
std::string describe(const Chart& chart) {
  std::string out;
  for (const ChartLine& line : chart.lines) {
    double first = NAN, last = NAN, low = INFINITY, high = -INFINITY;
    for (const ChartPoint& point : line.points) {
      if (!is_plottable(point.y)) continue;
      if (!is_plottable(first)) first = point.y;
      last = point.y;
      low = std::min(low, point.y);
      high = std::max(high, point.y);
    }
    const auto text = [&](double value) {
      return format_value(value, chart.percent ? Unit::kFraction : Unit::kNumber);
    };
    out += line.name + ": from " + text(first) + " to " + text(last) + ", minimum " + text(low) + ", maximum " +
           text(high) + ". ";
  }
  return out;
}

std::string legend(const Chart& chart, const std::string& mark_name) {
  const bool has_band = std::ranges::any_of(chart.lines, [](const ChartLine& line) { return !line.low.empty(); });
  if (chart.lines.size() < 2 && mark_name.empty() && !has_band) return "";
  std::string out = "<ul class=\"legend\">";
  for (const ChartLine& line : chart.lines) {
    out += "<li><i class=\"key s" + std::to_string(line.color % 7) + "\"></i>" + escape_untrusted(line.name) + "</li>";
  }
  if (!mark_name.empty()) out += "<li><i class=\"key round " + mark_name + "</li>";
  return out + "</ul>";
}

/// Draws a wide chart twice, for wide and for narrow screens.
std::string draw_sizes(const Chart& chart, ChartSize size) {
  if (size == ChartSize::kHalf) return svg_chart(chart);
  Chart wide = chart;
  wide.id += "-wide";
  wide.width = 1056;
  wide.height = 300;
  return "<div class=\"on-wide\">" + svg_chart(wide) + "</div><div class=\"on-narrow\">" + svg_chart(chart) + "</div>";
}

/// The smoothing window of a phase: the same for all runs, chosen for the shortest run.
size_t common_window(const std::vector<RunData>& runs, std::string_view phase) {
  size_t shortest = std::numeric_limits<size_t>::max();
  for (const RunData& run : runs) {
    const auto steps =
        std::count_if(run.metrics.begin(), run.metrics.end(), [&](const MetricRow& row) { return row.phase == phase; });
    if (steps > 0) shortest = std::min(shortest, static_cast<size_t>(steps));
  }
  return shortest == std::numeric_limits<size_t>::max() ? 1 : smoothing_window(shortest);
}

std::string window_note(size_t window) {
  if (window <= 1) return "";
  return "<p class=\"note\">Bold: moving average over " + format_count(static_cast<int64_t>(window)) +
         " steps. Faint: each step.</p>";
}

/// Curves of one metric, one colour per variant. The curve of a single run is called `name`.
std::vector<ChartLine> metric_lines(const std::vector<RunData>& runs, std::string_view phase, std::string_view key,
                                    const std::string& name) {
  std::vector<ChartLine> lines = variant_lines(runs, phase, key);
  if (runs.size() == 1 && !lines.empty()) lines[0].name = name;
  return lines;
}

Chart make_chart(const Figure& spec, const std::string& id, const std::string& title, size_t window) {
  Chart chart;
  chart.window = window;
  chart.id = id;
  chart.title = title;
  chart.percent = spec.percent;
  chart.includes_zero = spec.includes_zero;
  chart.may_be_log = spec.may_be_log;
  return chart;
}

/// Returns whether any curve has two different values.
bool is_changing(const Figure& spec, const std::vector<RunData>& runs) {
  for (const RunData& run : runs) {
    for (const Curve& curve : spec.curves) {
      std::set<double> values;
      for (const ChartPoint& point : metric_curve(run, spec.phase, curve.key))
        if (is_plottable(point.y)) values.insert(point.y);
      if (values.size() > 1) return true;
    }
  }
  return false;
}

std::string draw(const Figure& spec, const std::vector<RunData>& runs, ChartSize size = ChartSize::kHalf) {
  if (spec.hide_if_constant && !is_changing(spec, runs)) return "";
  std::string out;
  const size_t window = common_window(runs, spec.phase);
  Chart combined = make_chart(spec, std::string("chart-") + spec.curves[0].key, spec.title, window);
  for (const Curve& curve : spec.curves) {
    std::vector<ChartLine> lines = metric_lines(runs, spec.phase, curve.key, curve.name);
    if (lines.empty()) continue;
    if (runs.size() == 1) {
      lines[0].color = static_cast<int>(combined.lines.size());
      combined.lines.push_back(std::move(lines[0]));
      continue;
    }
    Chart chart = make_chart(spec, std::string("chart-") + curve.key, curve.title ? curve.title : spec.title, window);
    chart.lines = std::move(lines);
    out += chart_figure(std::move(chart), curve.caption ? curve.caption : spec.caption);
  }
  if (!combined.lines.empty()) out += chart_figure(std::move(combined), spec.caption, "", size);
  return out;
}

/// Returns whether rewards are in the range of accuracies, so that one chart can show both.
bool fits_accuracy_scale(const std::vector<ChartLine>& lines) {
  for (const ChartLine& line : lines) {
    for (const ChartPoint& point : line.points) {
      if (is_plottable(point.y) && (point.y < -1.05 || point.y > 1.55)) return false;
    }
  }
  return true;
}

std::vector<ChartMark> eval_marks(const std::vector<RunData>& runs) {
  std::vector<ChartMark> marks = variant_marks(runs);
  if (runs.size() > 1 || marks.empty()) return marks;
  const RunSummary summary = summarize(runs[0]);
  for (ChartMark& mark : marks) mark.color = 1;
  marks.front().label = format_mean(summary.evals.front());
  marks.front().label_below = marks.size() > 1;
  marks.back().label = format_mean(summary.evals.back());
  return marks;
}

bool has_seeds(const std::vector<RunData>& runs) { return group_by_seed(runs).size() < runs.size(); }

std::string mark_legend(const std::vector<RunData>& runs) {
  return std::string(runs.size() == 1 ? "s1\"></i>" : "ink\"></i>") + "evaluation " + evaluation_name(runs) +
         (has_seeds(runs) ? ", 95 % interval, or minimum to maximum of the seeds" : ", 95 % interval");
}

std::string reward_figure(const std::vector<RunData>& runs) {
  Chart chart;
  chart.id = "chart-reward";
  chart.title = "Reward";
  chart.height = 250;
  chart.window = common_window(runs, "rl");
  chart.lines = metric_lines(runs, "rl", "reward/mean", "mean reward of the step’s completions");
  std::vector<ChartMark> marks = eval_marks(runs);
  if (chart.lines.empty() && marks.empty()) return "";
  const std::string measure = evaluation_name(runs);
  const std::string caption = "Mean reward of the completions sampled in each step.";
  const std::string marks_caption =
      (measure == "accuracy" ? "fraction of held-out problems solved" : "mean over the held-out problems") +
      std::string(has_seeds(runs) ? "; for several seeds their mean, minimum and maximum."
                                  : ", with its 95 % interval.");
  if (!chart.lines.empty() && (measure == "reward" || fits_accuracy_scale(chart.lines))) {
    const std::string name = marks.empty() ? "" : mark_legend(runs);
    chart.marks = std::move(marks);
    return chart_figure(chart, caption + (name.empty() ? "" : " Points: " + marks_caption), name, ChartSize::kWide);
  }
  std::string out = chart.lines.empty() ? "" : chart_figure(chart, caption, "", ChartSize::kWide);
  if (marks.empty()) return out;
  Chart evals = make_chart({"", "", "", {}, measure == "accuracy"}, "chart-eval", "Evaluation " + measure, 1);
  evals.marks = std::move(marks);
  return out + chart_figure(std::move(evals), "Points: " + marks_caption, mark_legend(runs));
}

/// The bound of the certificate ± two standard errors, and for a single run the gain.
std::string certificate_figure(const std::vector<RunData>& runs) {
  const Figure spec{
      .phase = "rl", .title = "Certificate of improvement", .caption = "", .curves = {}, .includes_zero = true};
  Chart chart = make_chart(spec, "chart-certificate", spec.title, 1);
  chart.lines = metric_lines(runs, "rl", "certificate/bound", "bound");
  if (chart.lines.empty()) return "";
  const std::vector<SeedVariant> variants = group_by_seed(runs);
  for (size_t v = 0; v < variants.size(); ++v) {
    if (variants[v].runs.size() > 1) continue;  // it already has a band
    const RunData& run = runs[variants[v].runs[0]];
    std::vector<ChartMark> marks;
    for (const MetricRow& row : run.metrics) {
      const auto bound = row.values.find("certificate/bound"), error = row.values.find("certificate/standard_error");
      if (bound == row.values.end() || error == row.values.end()) continue;
      const double y = bound->second, band = 2 * error->second;
      marks.push_back({static_cast<double>(row.step), y, y - band, y + band, "", static_cast<int>(v)});
    }
    for (size_t k = 0; k < marks.size(); ++k)
      if (has_marker(k, marks.size())) chart.marks.push_back(marks[k]);
  }
  if (runs.size() == 1)
    for (ChartLine& line : metric_lines(runs, "rl", "certificate/gain", "gain before the penalty")) {
      line.color = 1;
      chart.lines.push_back(std::move(line));
    }
  const std::string mark_name =
      chart.marks.empty() ? "" : std::string(runs.size() == 1 ? "s0" : "ink") + "\"></i>the bound, two standard errors";
  return chart_figure(std::move(chart),
                      "Estimated lower bound of the gain in expected reward by the step’s updates. Above 0 by more "
                      "than its band it shows an improvement; below 0 it shows nothing.",
                      mark_name);
}

/// Curves of the reward functions, if there are several: one chart for one run, else one chart per function.
std::string function_figures(const std::vector<RunData>& runs) {
  constexpr std::string_view kPrefix = "reward/function/";
  std::set<std::string> keys;
  for (const RunData& run : runs)
    for (const MetricRow& row : run.metrics)
      for (auto value = row.values.lower_bound(kPrefix); value != row.values.end() && value->first.starts_with(kPrefix);
           ++value)
        keys.insert(value->first);
  const std::string caption = "Mean before weighting, over the completions of the step that it scored.";
  Chart combined;
  combined.id = "chart-functions";
  combined.title = "Reward functions";
  combined.window = common_window(runs, "rl");
  std::string out;
  for (const std::string& key : keys) {
    const std::string name = key.substr(kPrefix.size());
    std::vector<ChartLine> lines = metric_lines(runs, "rl", key, name);
    if (lines.empty()) continue;
    Chart chart = combined;
    chart.lines = std::move(lines);
    if (runs.size() == 1) {
      chart.lines[0].color = static_cast<int>(combined.lines.size());
      combined.lines.push_back(std::move(chart.lines[0]));
      continue;
    }
    chart.id = "chart-function-" + std::to_string(std::distance(keys.begin(), keys.find(key)));
    chart.title = "Reward function " + name;
    out += chart_figure(std::move(chart), caption);
  }
  if (!combined.lines.empty()) out += chart_figure(std::move(combined), caption);
  return out;
}

std::string wrap_charts(const std::string& figures) {
  return figures.empty() ? "" : "<div class=\"charts\">" + figures + "</div>";
}

}  // namespace

std::string notes_on_curves(const std::vector<RunData>& runs, std::string_view phase) {
  std::string out = window_note(common_window(runs, phase));
  if (has_seeds(runs))
    out +=
        "<p class=\"note\">Runs that differ only by run.seed are one curve: their mean at the steps that all of them "
        "have, with a band from the minimum to the maximum.</p>";
  const auto has_sft = [](const RunData& run) { return summarize(run).sft_steps > 0; };
  if (phase == "rl" && std::ranges::any_of(runs, has_sft))
    out +=
        "<p class=\"note\">Steps count RL only. metrics.jsonl, checkpoints and <code>keel tokens</code> count on from "
        "the SFT steps.</p>";
  return out;
}

bool has_marker(size_t k, size_t count) {
  constexpr size_t kMaxMarks = 40;
  return k * kMaxMarks / count != (k + 1) * kMaxMarks / count || k == 0 || k + 1 == count;
}

std::string chart_figure(Chart chart, const std::string& caption, const std::string& mark_name, ChartSize size) {
  chart.buckets = chart.lines.size() > 3 ? 90 : 220;
  chart.description = describe(chart) + chart.description;
  const std::string smoothing = chart.window > 1 ? " data-window=\"" + std::to_string(chart.window) + "\"" : "";
  return std::string("<figure class=\"card") + (size == ChartSize::kWide ? " wide" : "") + "\"" + smoothing +
         "><figcaption><h3>" + escape_untrusted(chart.title) + "</h3><p>" + escape_html(caption) + "</p>" +
         legend(chart, mark_name) + "</figcaption>" + draw_sizes(chart, size) + "</figure>";
}

std::string trust_region_charts(const std::vector<RunData>& runs) {
  std::string figures;
  for (const Figure& spec : trust_region_figures()) figures += draw(spec, runs);
  figures += certificate_figure(runs);
  return figures.empty() ? "" : notes_on_curves(runs, "rl") + wrap_charts(figures);
}

std::string mismatch_charts(const std::vector<RunData>& runs) { return draw(mismatch_figure(), runs); }

std::string chart_sections(const std::vector<RunData>& runs) {
  std::string rl = reward_figure(runs) + function_figures(runs);
  for (const Figure& spec : overview_figures()) rl += draw(spec, runs);
  const Figure sft{"sft",
                   "Supervised loss",
                   "Nats per token of the demonstrations.",
                   {{"sft/loss", "batch", "Supervised loss, each batch"},
                    {"sft/loss_average", "running average", "Supervised loss, running average",
                     "Nats per token of the demonstrations, exponential moving average with factor 0.95 per batch."}},
                   false,
                   true};
  const Figure held_out{
      "eval",
      "Loss on held-out rows",
      "Nats per token of the held-out rows. If it rises while the loss of batches falls, the model overfits.",
      {{"sft/eval_loss", "held-out rows"}},
      false,
      true};
  const std::string supervised = draw(sft, runs, ChartSize::kWide) + draw(held_out, runs, ChartSize::kWide);
  std::string out;
  if (!rl.empty())
    out += "<section><h2>Reinforcement learning</h2>" + notes_on_curves(runs, "rl") + wrap_charts(rl) + "</section>";
  if (!supervised.empty())
    out += "<section><h2>Supervised fine-tuning</h2>" + notes_on_curves(runs, "sft") + wrap_charts(supervised) +
           "</section>";
  return out;
}

}  // namespace keel
