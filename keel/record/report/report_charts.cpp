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
  // Of its own chart, where several runs are compared; null: those of the figure.
  const char* title = nullptr;
  const char* caption = nullptr;
};

/// One chart of a report: its curves for one run, one chart per curve for several runs.
struct Figure {
  const char* phase;
  const char* title;
  const char* caption;  // what it shows and what to look for
  std::vector<Curve> curves;
  bool percent = false, from_zero = false, may_be_log = false;
  bool only_where_it_moves = false;
};

const std::vector<Figure>& overview_figures() {
  static const std::vector<Figure> figures{
      {"rl",
       "Entropy",
       "Nats per token. A fall to zero early on means that exploration has ended.",
       {{"policy/entropy", "entropy"}},
       false,
       true},
      {"rl",
       "Completion length",
       "Tokens, mean over the step’s completions.",
       {{"completion/length_mean", "mean"}},
       false,
       true},
      {"rl",
       "Truncated and signal-less",
       "Share of completions cut off at the length limit; share of groups whose rewards are all equal.",
       {{"completion/truncated", "truncated completions", "Truncated completions",
         "Share of completions cut off at the length limit."},
        {"reward/zero_std_groups", "groups with equal rewards", "Groups with equal rewards",
         "Share of groups whose rewards are all equal: they teach nothing."}},
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
       .caption = "Of the step’s last update.",
       .curves = {{"optimizer/lr", "policy", "Learning rate of the policy"},
                  {"critic/lr", "critic", "Learning rate of the critic"}},
       .from_zero = true,
       .only_where_it_moves = true},
      {"rl",
       "Throughput",
       "Completion tokens per second.",
       {{"throughput/rollout_tokens_per_s", "rollout", "Throughput of rollouts", "Tokens sampled per second."},
        {"throughput/train_tokens_per_s", "training", "Throughput of training",
         "Tokens trained on per second, those of each epoch counted."}},
       false,
       true},
  };
  return figures;
}

const std::vector<Figure>& trust_region_figures() {
  static const std::vector<Figure> figures{
      {"rl",
       "Tokens blocked by the trust region",
       "Share of tokens whose update was blocked.",
       {{"trust_region/masked", "all", "Blocked tokens"},
        {"trust_region/masked_positive", "positive advantage", "Blocked tokens of positive advantage",
         "Share of the tokens of positive advantage whose update was blocked."},
        {"trust_region/masked_negative", "negative advantage", "Blocked tokens of negative advantage",
         "Share of the tokens of negative advantage whose update was blocked."}},
       true,
       true},
      {"rl",
       "Divergence from the behavior policy",
       "By the method’s own measure, per token, over all updates of a step.",
       {{"trust_region/divergence_mean", "mean", "Divergence from the behavior policy, mean",
         "By the method’s own measure, mean over the tokens of all updates of a step."},
        {"trust_region/divergence_max", "largest", "Divergence from the behavior policy, largest",
         "By the method’s own measure, largest of the tokens of all updates of a step."}},
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
      "Trainer against sampler before the first update of each step: rounding error, unless the sampler uses rounded "
      "weights, is some steps behind, or an adapter is trained with dropout.",
      {{"mismatch/abs_prob_mean", "mean", "Mismatch |π − μ|, mean"},
       {"mismatch/abs_prob_max", "largest", "Mismatch |π − μ|, largest"}},
      false,
      true,
      true};
  return figure;
}

/// The curve in a sentence, for readers who hear the page.
std::string describe(const Chart& chart) {
  std::string out;
  for (const ChartLine& line : chart.lines) {
    double first = NAN, last = NAN, low = INFINITY, high = -INFINITY;
    for (const ChartPoint& point : line.points) {
      if (!drawable(point.y)) continue;
      if (!drawable(first)) first = point.y;
      last = point.y;
      low = std::min(low, point.y);
      high = std::max(high, point.y);
    }
    const auto text = [&](double value) { return format_value(value, chart.percent ? Unit::kShare : Unit::kNumber); };
    out += line.name + ": from " + text(first) + " to " + text(last) + ", smallest " + text(low) + ", largest " +
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

/// A wide chart is drawn twice, for wide and for narrow screens: shrunk to a phone, one drawing would be too flat.
std::string drawings(const Chart& chart, ChartSize size) {
  if (size == ChartSize::kHalf) return svg_chart(chart);
  Chart wide = chart;
  wide.id += "-wide";
  wide.width = 1056;
  wide.height = 300;
  return "<div class=\"on-wide\">" + svg_chart(wide) + "</div><div class=\"on-narrow\">" + svg_chart(chart) + "</div>";
}

/// Steps that the curves of a phase are averaged over. It is the same for all runs, or their curves could not be
/// compared; and it is that of the shortest, whose shape a longer one would wash out.
size_t window_of(const std::vector<RunData>& runs, std::string_view phase) {
  size_t shortest = std::numeric_limits<size_t>::max();
  for (const RunData& run : runs) {
    const auto steps =
        std::count_if(run.metrics.begin(), run.metrics.end(), [&](const MetricRow& row) { return row.phase == phase; });
    if (steps > 0) shortest = std::min(shortest, static_cast<size_t>(steps));
  }
  return shortest == std::numeric_limits<size_t>::max() ? 1 : smoothing_window(shortest);
}

std::string note_on(size_t window) {
  if (window <= 1) return "";
  return "<p class=\"note\">Bold: moving average over " + format_count(static_cast<int64_t>(window)) +
         " steps. Faint: each step.</p>";
}

/// Curves of one metric, a colour per variant; of one run by the curve's own name.
std::vector<ChartLine> lines_of(const std::vector<RunData>& runs, std::string_view phase, std::string_view key,
                                const std::string& name) {
  std::vector<ChartLine> lines = variant_lines(runs, phase, key);
  if (runs.size() == 1 && !lines.empty()) lines[0].name = name;
  return lines;
}

Chart chart_of(const Figure& spec, const std::string& id, const std::string& title, size_t window) {
  Chart chart;
  chart.window = window;
  chart.id = id;
  chart.title = title;
  chart.percent = spec.percent;
  chart.from_zero = spec.from_zero;
  chart.may_be_log = spec.may_be_log;
  return chart;
}

/// Whether a curve has two different numbers.
bool moves(const Figure& spec, const std::vector<RunData>& runs) {
  for (const RunData& run : runs) {
    for (const Curve& curve : spec.curves) {
      std::set<double> values;
      for (const ChartPoint& point : metric_curve(run, spec.phase, curve.key))
        if (drawable(point.y)) values.insert(point.y);
      if (values.size() > 1) return true;
    }
  }
  return false;
}

std::string draw(const Figure& spec, const std::vector<RunData>& runs, ChartSize size = ChartSize::kHalf) {
  if (spec.only_where_it_moves && !moves(spec, runs)) return "";
  std::string out;
  const size_t window = window_of(runs, spec.phase);
  Chart together = chart_of(spec, std::string("chart-") + spec.curves[0].key, spec.title, window);
  for (const Curve& curve : spec.curves) {
    std::vector<ChartLine> lines = lines_of(runs, spec.phase, curve.key, curve.name);
    if (lines.empty()) continue;
    if (runs.size() == 1) {
      lines[0].color = static_cast<int>(together.lines.size());
      together.lines.push_back(std::move(lines[0]));
      continue;
    }
    Chart chart = chart_of(spec, std::string("chart-") + curve.key, curve.title ? curve.title : spec.title, window);
    chart.lines = std::move(lines);
    out += chart_figure(std::move(chart), curve.caption ? curve.caption : spec.caption);
  }
  if (!together.lines.empty()) out += chart_figure(std::move(together), spec.caption, "", size);
  return out;
}

/// Accuracy is a share of problems; beside rewards of quite another size its points would only lie flat.
bool shares_scale(const std::vector<ChartLine>& lines) {
  for (const ChartLine& line : lines) {
    for (const ChartPoint& point : line.points) {
      if (drawable(point.y) && (point.y < -1.05 || point.y > 1.55)) return false;
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

bool has_seeds(const std::vector<RunData>& runs) { return variants_of(runs).size() < runs.size(); }

std::string mark_legend(const std::vector<RunData>& runs) {
  return std::string(runs.size() == 1 ? "s1\"></i>" : "ink\"></i>") + "evaluation " + evaluation_name(runs) +
         (has_seeds(runs) ? ", 95 % interval, or smallest to largest of the seeds" : ", 95 % interval");
}

std::string reward_figure(const std::vector<RunData>& runs) {
  Chart chart;
  chart.id = "chart-reward";
  chart.title = "Reward";
  chart.height = 250;
  chart.window = window_of(runs, "rl");
  chart.lines = lines_of(runs, "rl", "reward/mean", "mean reward of the step’s completions");
  std::vector<ChartMark> marks = eval_marks(runs);
  if (chart.lines.empty() && marks.empty()) return "";
  const std::string measure = evaluation_name(runs);
  const std::string caption = "Mean reward of the completions sampled in each step.";
  const std::string of_marks =
      (measure == "accuracy" ? "share of held-out problems solved" : "mean over the held-out problems") +
      std::string(has_seeds(runs) ? ", of several seeds their mean, smallest and largest."
                                  : ", with its 95 % interval.");
  if (!chart.lines.empty() && (measure == "reward" || shares_scale(chart.lines))) {
    const std::string name = marks.empty() ? "" : mark_legend(runs);
    chart.marks = std::move(marks);
    return chart_figure(chart, caption + (name.empty() ? "" : " Points: " + of_marks), name, ChartSize::kWide);
  }
  std::string out = chart.lines.empty() ? "" : chart_figure(chart, caption, "", ChartSize::kWide);
  if (marks.empty()) return out;
  Chart evals = chart_of({"", "", "", {}, measure == "accuracy"}, "chart-eval", "Evaluation " + measure, 1);
  evals.marks = std::move(marks);
  return out + chart_figure(std::move(evals), "Points: " + of_marks, mark_legend(runs));
}

/// The bound of the certificate with two of its standard errors on either side, and of one run the gain beside it.
std::string certificate_figure(const std::vector<RunData>& runs) {
  const Figure spec{
      .phase = "rl", .title = "Certificate of improvement", .caption = "", .curves = {}, .from_zero = true};
  Chart chart = chart_of(spec, "chart-certificate", spec.title, 1);
  chart.lines = lines_of(runs, "rl", "certificate/bound", "bound");
  if (chart.lines.empty()) return "";
  const std::vector<SeedVariant> variants = variants_of(runs);
  for (size_t v = 0; v < variants.size(); ++v) {
    if (variants[v].runs.size() > 1) continue;  // has a band already
    const RunData& run = runs[variants[v].runs[0]];
    std::vector<ChartMark> marks;
    for (const MetricRow& row : run.metrics) {
      const auto bound = row.values.find("certificate/bound"), error = row.values.find("certificate/standard_error");
      if (bound == row.values.end() || error == row.values.end()) continue;
      const double y = bound->second, band = 2 * error->second;
      marks.push_back({static_cast<double>(row.step) - first_step_of(run, runs.size(), "rl"), y, y - band, y + band, "",
                       static_cast<int>(v)});
    }
    for (size_t k = 0; k < marks.size(); ++k)
      if (is_marked(k, marks.size())) chart.marks.push_back(marks[k]);
  }
  if (runs.size() == 1)
    for (ChartLine& line : lines_of(runs, "rl", "certificate/gain", "gain before the penalty")) {
      line.color = 1;
      chart.lines.push_back(std::move(line));
    }
  const std::string legend_of_marks =
      chart.marks.empty() ? "" : std::string(runs.size() == 1 ? "s0" : "ink") + "\"></i>the bound, two standard errors";
  return chart_figure(
      std::move(chart),
      "An estimate of a lower bound of what the step’s updates gained in expected reward. Above 0 by more "
      "than its band: improved. Below 0 it says nothing.",
      legend_of_marks);
}

/// A curve for each reward function, where there are several: one chart for one run, one chart per function for more.
std::string function_figures(const std::vector<RunData>& runs) {
  constexpr std::string_view kPrefix = "reward/function/";
  std::set<std::string> keys;
  for (const RunData& run : runs)
    for (const MetricRow& row : run.metrics)
      for (auto value = row.values.lower_bound(kPrefix); value != row.values.end() && value->first.starts_with(kPrefix);
           ++value)
        keys.insert(value->first);
  const std::string caption = "Mean before its weight, over the completions of the step that it judged.";
  Chart together;
  together.id = "chart-functions";
  together.title = "Reward functions";
  together.window = window_of(runs, "rl");
  std::string out;
  for (const std::string& key : keys) {
    const std::string name = key.substr(kPrefix.size());
    std::vector<ChartLine> lines = lines_of(runs, "rl", key, name);
    if (lines.empty()) continue;
    Chart chart = together;
    chart.lines = std::move(lines);
    if (runs.size() == 1) {
      chart.lines[0].color = static_cast<int>(together.lines.size());
      together.lines.push_back(std::move(chart.lines[0]));
      continue;
    }
    chart.id = "chart-function-" + std::to_string(std::distance(keys.begin(), keys.find(key)));
    chart.title = "Reward function " + name;
    out += chart_figure(std::move(chart), caption);
  }
  if (!together.lines.empty()) out += chart_figure(std::move(together), caption);
  return out;
}

std::string in_charts(const std::string& figures) {
  return figures.empty() ? "" : "<div class=\"charts\">" + figures + "</div>";
}

}  // namespace

std::string notes_on_curves(const std::vector<RunData>& runs, std::string_view phase) {
  std::string out = note_on(window_of(runs, phase));
  if (has_seeds(runs))
    out +=
        "<p class=\"note\">Runs that differ by run.seed alone are one curve: their mean, at the steps that all of them "
        "have, and a band from the smallest to the largest of them.</p>";
  if (runs.size() > 1 && phase == "rl")
    out += "<p class=\"note\">Steps are those of RL; a warm-up before it is not counted.</p>";
  return out;
}

bool is_marked(size_t k, size_t count) {
  constexpr size_t kMaxMarks = 40;
  return k * kMaxMarks / count != (k + 1) * kMaxMarks / count || k == 0 || k + 1 == count;
}

std::string chart_figure(Chart chart, const std::string& caption, const std::string& mark_name, ChartSize size) {
  chart.buckets = chart.lines.size() > 3 ? 90 : 220;
  chart.description = describe(chart) + chart.description;
  const std::string smoothing = chart.window > 1 ? " data-window=\"" + std::to_string(chart.window) + "\"" : "";
  return std::string("<figure class=\"card") + (size == ChartSize::kWide ? " wide" : "") + "\"" + smoothing +
         "><figcaption><h3>" + escape_untrusted(chart.title) + "</h3><p>" + escape_html(caption) + "</p>" +
         legend(chart, mark_name) + "</figcaption>" + drawings(chart, size) + "</figure>";
}

std::string trust_region_charts(const std::vector<RunData>& runs) {
  std::string figures;
  for (const Figure& spec : trust_region_figures()) figures += draw(spec, runs);
  figures += certificate_figure(runs);
  return figures.empty() ? "" : notes_on_curves(runs, "rl") + in_charts(figures);
}

std::string mismatch_charts(const std::vector<RunData>& runs) { return draw(mismatch_figure(), runs); }

std::string chart_sections(const std::vector<RunData>& runs) {
  std::string rl = reward_figure(runs) + function_figures(runs);
  for (const Figure& spec : overview_figures()) rl += draw(spec, runs);
  const Figure sft{
      "sft",
      "Supervised loss",
      "Nats per token of the demonstrations.",
      {{"sft/loss", "batch", "Supervised loss, each batch"},
       {"sft/loss_average", "running average", "Supervised loss, running average",
        "Nats per token of the demonstrations, averaged with weights that fall by 0.95 from batch to batch."}},
      false,
      true};
  const Figure held_out{
      "eval",
      "Loss on held-out rows",
      "Nats per token of the rows that are kept for it. Where it rises while the loss of batches falls, "
      "the rows are learned by heart.",
      {{"sft/eval_loss", "held-out rows"}},
      false,
      true};
  const std::string supervised = draw(sft, runs, ChartSize::kWide) + draw(held_out, runs, ChartSize::kWide);
  std::string out;
  if (!rl.empty())
    out += "<section><h2>Reinforcement learning</h2>" + notes_on_curves(runs, "rl") + in_charts(rl) + "</section>";
  if (!supervised.empty())
    out += "<section><h2>Supervised fine-tuning</h2>" + notes_on_curves(runs, "sft") + in_charts(supervised) +
           "</section>";
  return out;
}

}  // namespace keel
