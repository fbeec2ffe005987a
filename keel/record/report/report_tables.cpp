#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "keel/core/console.h"
#include "keel/core/strings.h"
#include "keel/record/charts/html.h"
#include "keel/record/report/report_parts.h"
#include "keel/record/report/variants.h"

namespace keel {
namespace {

struct NamedMetric {
  const char* key;
  const char* name;
  Unit unit;
};

constexpr std::array<NamedMetric, 31> kNamedMetrics{{
    {"reward/mean", "Reward, mean", Unit::kNumber},
    {"reward/std", "Reward, standard deviation", Unit::kNumber},
    {"reward/zero_std_groups", "Groups with equal rewards", Unit::kFraction},
    {"policy/entropy", "Entropy, nats per token", Unit::kNumber},
    {"policy/kl_behavior", "KL to the behavior policy", Unit::kNumber},
    {"trust_region/masked", "Blocked tokens", Unit::kFraction},
    {"trust_region/masked_positive", "Blocked, positive advantage", Unit::kFraction},
    {"trust_region/masked_negative", "Blocked, negative advantage", Unit::kFraction},
    {"trust_region/divergence_mean", "Divergence, mean", Unit::kNumber},
    {"trust_region/divergence_max", "Divergence, maximum", Unit::kNumber},
    {"trust_region/divergence_infinite", "Divergence, infinite values", Unit::kNumber},
    {"mismatch/abs_prob_mean", "|π − μ| before the first update, mean", Unit::kNumber},
    {"mismatch/abs_prob_max", "|π − μ| before the first update, maximum", Unit::kNumber},
    {"ratio/mean", "Ratio π/μ, mean", Unit::kNumber},
    {"ratio/max", "Ratio π/μ, maximum", Unit::kNumber},
    {"ratio/clamped", "Ratio, clamped", Unit::kNumber},
    {"completion/length_mean", "Completion length, mean", Unit::kNumber},
    {"completion/length_max", "Completion length, maximum", Unit::kCount},
    {"completion/truncated", "Truncated completions", Unit::kFraction},
    {"optimizer/grad_norm", "Gradient norm", Unit::kNumber},
    {"optimizer/lr", "Learning rate", Unit::kNumber},
    {"skipped_steps", "Skipped updates", Unit::kNumber},
    {"time/rollout", "Time, rollouts", Unit::kSeconds},
    {"time/reward", "Time, rewards", Unit::kSeconds},
    {"time/train", "Time, training", Unit::kSeconds},
    {"time/checkpoint", "Time, checkpoint", Unit::kSeconds},
    {"time/checkpoint_write", "Time, writing checkpoints", Unit::kSeconds},
    {"throughput/rollout_tokens_per_s", "Rollout tokens per second", Unit::kCount},
    {"throughput/train_tokens_per_s", "Training tokens per second", Unit::kCount},
    {"memory/peak_bytes", "Peak memory", Unit::kBytes},
    {"memory/device_peak_bytes", "Peak memory taken from the GPU", Unit::kBytes},
}};

/// Formats 3e-7 as 3.0×10⁻⁷.
std::string format_power(double value) {
  const std::string text = format_number(value, 2);
  const size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  std::string power = text.substr(exponent + 1);
  if (power[0] == '-') power.replace(0, 1, "−");
  return text.substr(0, exponent) + "×10<sup>" + power + "</sup>";
}

std::string tile(const std::string& name, const std::string& value, const std::string& below) {
  return "<div class=\"tile\"><dt>" + name + "</dt><dd><b>" + value + "</b>" +
         (below.empty() ? "" : "<span>" + below + "</span>") + "</dd></div>";
}

std::string with_comma(const std::string& text) { return text.empty() ? "" : ", " + text; }

bool has_interval(const EvalPoint& eval) { return eval.low < eval.high; }

std::string format_interval(const EvalPoint& eval) {
  if (!has_interval(eval)) return "–";
  if (!eval.is_accuracy) return format_number(eval.low) + " to " + format_number(eval.high);
  return format_number(eval.low * 100) + "–" + format_number(eval.high * 100) + " %";
}

std::string evaluation_tile(const RunSummary& summary) {
  if (!summary.before && !summary.after) return "";
  const EvalPoint& last = summary.after ? *summary.after : *summary.before;
  const bool both = summary.before && summary.after;
  std::vector<std::string> notes;
  if (both && (has_interval(*summary.before) || has_interval(last)))
    notes.push_back("95 % intervals " + format_interval(*summary.before) + " → " + format_interval(last));
  else if (has_interval(last))
    notes.push_back("95 % interval " + format_interval(last));
  if (last.count > 0) notes.push_back(format_count(last.count) + " problems");
  if (!last.subset.empty()) notes.push_back(escape_untrusted(last.subset));
  const std::string name = last.is_accuracy ? "Accuracy" : "Held-out reward";
  if (!both) return tile(summary.after ? name : name + ", before", format_mean(last), joined(notes));
  return tile(name + ", before → after",
              "<span class=\"before\">" + format_mean(*summary.before) + " →</span> " + format_mean(last),
              joined(notes));
}

/// The loss on held-out rows, if there are any.
std::string sft_loss_tile(const RunSummary& summary) {
  if (!summary.sft_loss_after) return "";
  return tile("Supervised loss, held-out rows", format_number(*summary.sft_loss_after),
              summary.sft_loss_before ? "before " + format_number(*summary.sft_loss_before) : "");
}

/// Skipped rows of the training data and of the last evaluation.
std::string skipped_rows_tile(const RunData& run) {
  double too_long = 0, bad = 0, limit = 0, eval_too_long = 0, eval_bad = 0;
  for (const MetricRow& row : run.metrics) {
    const auto value = [&](const char* key) {
      const auto found = row.values.find(key);
      return found != row.values.end() && is_plottable(found->second) ? found->second : 0;
    };
    too_long += value("data/too_long");
    bad += value("data/bad_rows");
    limit = std::max({limit, value("data/max_prompt_tokens"), value("eval/max_prompt_tokens")});
    if (row.phase == "eval") eval_too_long = value("eval/too_long"), eval_bad = value("eval/bad_rows");
  }
  const auto describe = [&](double long_rows, double bad_rows, const std::string& prefix) {
    std::string text;
    if (long_rows > 0)
      text = plural(static_cast<int64_t>(long_rows), "prompt") + " longer than " +
             plural(static_cast<int64_t>(limit), "token");
    if (bad_rows > 0) text += (text.empty() ? "" : ", ") + plural(static_cast<int64_t>(bad_rows), "bad row");
    return text.empty() ? "" : prefix + text;
  };
  const std::string training = describe(too_long, bad, "training: "),
                    held_out = describe(eval_too_long, eval_bad, "evaluation: ");
  if (training.empty() && held_out.empty()) return "";
  return tile("Skipped rows", format_count(static_cast<int64_t>(too_long + bad + eval_too_long + eval_bad)),
              training + (training.empty() || held_out.empty() ? "" : "; ") + held_out);
}

std::string summary_row(const RunData& run, const std::string& key, const std::string& name, Unit unit) {
  double first = NAN, last = NAN, sum = 0, low = NAN, high = NAN;
  size_t count = 0;
  for (const ChartPoint& point : metric_curve(run, "rl", key)) {
    if (!is_plottable(point.y)) continue;
    if (count++ == 0) first = low = high = point.y;
    last = point.y;
    sum += point.y;
    low = std::min(low, point.y);
    high = std::max(high, point.y);
  }
  if (count == 0) return "";
  const double mean = sum / static_cast<double>(count);
  std::vector<std::string> cells;
  for (const double value : {first, last, mean, low, high}) cells.push_back(format_value(value, unit));
  return body_row(name, cells);
}

using Settings = std::map<std::string, std::string>;

/// Sorts lists whose order has no effect, so that runs do not differ by it.
Settings sort_unordered_lists(Settings settings) {
  const auto found = settings.find("lora.target_modules");
  if (found == settings.end()) return settings;
  std::istringstream list(found->second);
  std::vector<std::string> items;
  for (std::string item; std::getline(list, item, ',');) items.emplace_back(trimmed(item));
  std::sort(items.begin(), items.end());
  found->second = joined(items);
  return settings;
}

/// Returns a key that is equal for runs with comparable evaluations: the measure, the problems and the limits.
std::string evaluation_key(const RunData& run, const EvalPoint& eval) {
  std::string text = eval.name() + std::string(" ") + std::to_string(eval.count);
  const Settings settings = effective_settings(run);
  const bool depends_on_seed = !settings.contains("data.files") && !settings.contains("data.eval_files");
  for (const auto& [path, value] : settings) {
    const bool affects_rewards = path.starts_with("reward.") && !eval.is_accuracy;
    const bool affects_problems =
        path.starts_with("task.") || path.starts_with("data.") || (depends_on_seed && path == "run.seed");
    const bool affects_completions = path == "rollout.max_new_tokens" || path == "rollout.stop_strings";
    if (affects_problems || affects_completions || affects_rewards ||
        (path.starts_with("eval.") && path != "eval.every"))
      text += "\n" + path + " " + value;
  }
  return text;
}

/// Names the steps of a mean over the last ten steps.
std::string mean_label(int64_t steps) { return steps >= 10 ? "last ten steps" : "mean of all steps"; }

/// Removes the common prefix of long values.
std::vector<std::string> remove_common_prefix(std::vector<std::string> values) {
  constexpr size_t kMaxLength = 80, kContext = 24;
  size_t longest = 0, common = values[0].size();
  for (const std::string& value : values) {
    longest = std::max(longest, value.size());
    const auto [here, there] = std::mismatch(value.begin(), value.end(), values[0].begin(), values[0].end());
    common = std::min(common, static_cast<size_t>(here - value.begin()));
  }
  if (longest <= kMaxLength || common <= kContext) return values;
  size_t from = common - kContext;
  while ((static_cast<unsigned char>(values[0][from]) & 0xC0) == 0x80) --from;  // start of a UTF-8 character
  for (std::string& value : values) value = "… " + value.substr(from);
  return values;
}

}  // namespace

std::map<std::string, std::string> effective_settings(const RunData& run) { return sort_unordered_lists(run.used); }

std::string plural(int64_t count, const std::string& noun) {
  return format_count(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string header_row(const std::vector<std::string>& names) {
  std::string out = "<thead><tr>";
  for (const std::string& name : names) out += "<th scope=\"col\">" + name + "</th>";
  return out + "</tr></thead>";
}

std::string body_row(const std::string& head, const std::vector<std::string>& cells) {
  std::string out = "<tr><th scope=\"row\">" + head + "</th>";
  for (const std::string& cell : cells) out += "<td>" + cell + "</td>";
  return out + "</tr>";
}

std::string format_mean(const EvalPoint& eval) {
  return eval.is_accuracy ? format_percent(eval.mean) : format_number(eval.mean);
}

std::string evaluation_name(const std::vector<RunData>& runs) {
  std::set<std::string> names;
  for (const RunData& run : runs)
    for (const EvalPoint& eval : summarize(run).evals) names.insert(eval.name());
  return names.size() > 1 ? "accuracy or reward" : names.empty() ? "accuracy" : *names.begin();
}

std::string format_percent(double fraction) {
  if (!std::isfinite(fraction)) return "–";
  const double percent = fraction * 100;
  if (std::fabs(percent) < 0.995) return format_number(percent, 2) + " %";
  const double tenths = std::round(percent * 10);
  const bool whole = std::fmod(tenths, 10) == 0;
  return format_number(tenths / 10, 9) + (whole ? ".0 %" : " %");
}

std::string format_signed(double value) {
  constexpr double kRounding = 1e-12;  // rounding error of a mean of 0
  if (std::fabs(value) < kRounding) value = 0;
  const std::string magnitude = format_number(std::fabs(value));
  return value > 0 ? "+" + magnitude : value < 0 ? "−" + magnitude : magnitude;
}

std::string format_value(double value, Unit unit) {
  if (!is_plottable(value)) return "–";
  const bool countable = std::fabs(value) < 1e15;
  switch (unit) {
    case Unit::kFraction:
      return format_percent(value);
    case Unit::kCount:
      return countable ? format_count(std::llround(value)) : format_number(value);
    case Unit::kSeconds:
      return value == 0 ? "0" : format_duration(value);
    case Unit::kBytes:
      return countable ? format_count(std::llround(value)) + "B" : format_number(value);
    case Unit::kNumber:
      break;
  }
  return format_number(value, std::fabs(value) >= 1000 ? 5 : 3);
}

std::string setting(const RunData& run, const std::string& path) {
  const Settings settings = effective_settings(run);
  const auto found = settings.find(path);
  return found == settings.end() ? "" : found->second;
}

std::string staleness_text(const RunData& run) {
  const std::string steps = setting(run, "rollout.staleness");
  return steps.empty() || steps == "0" ? ""
                                       : escape_untrusted(steps) + (steps == "1" ? " step behind" : " steps behind");
}

std::string headline_tiles(const RunData& run) {
  const RunSummary summary = summarize(run);
  std::string out = evaluation_tile(summary);
  if (is_plottable(summary.best_reward)) {
    out += tile("Best reward", format_number(summary.best_reward),
                "at step " + format_count(summary.best_reward_step) + "; " + mean_label(summary.rl_steps) + " " +
                    format_number(summary.last_reward));
  }
  if (is_plottable(summary.masked))
    out += tile("Blocked tokens", format_percent(summary.masked), "by the trust region, mean over steps");
  if (is_plottable(summary.mismatch)) {
    out += tile("Mean |π − μ|", format_power(summary.mismatch),
                "trainer and sampler, before a step's first update" + with_comma(staleness_text(run)));
  }
  if (is_plottable(summary.rollout_tokens_per_s)) {
    out += tile("Rollout tokens/s", format_value(summary.rollout_tokens_per_s, Unit::kCount),
                is_plottable(summary.train_tokens_per_s)
                    ? "training " + format_value(summary.train_tokens_per_s, Unit::kCount) + " per second"
                    : "");
  }
  out += sft_loss_tile(summary) + skipped_rows_tile(run);
  if (summary.seconds > 0) {
    out += tile("Time", format_duration(summary.seconds),
                summary.rl_steps == 0 && summary.sft_steps > 0
                    ? plural(summary.sft_steps, "SFT step")
                    : plural(summary.rl_steps, "RL step") +
                          (summary.sft_steps > 0 ? ", " + plural(summary.sft_steps, "SFT step") : ""));
  }
  return out.empty() ? "" : "<dl class=\"tiles\">" + out + "</dl>";
}

std::string comparison_table(const std::vector<RunData>& runs) {
  const std::string measure = evaluation_name(runs);
  std::string out =
      "<section><h2>Comparison</h2><div class=\"scroll\"><table>" +
      header_row({"Run", "Held-out " + measure + ", before", "after", "95 % interval", "Best reward", "Reward, last 10",
                  "Blocked", "Mean |π&nbsp;−&nbsp;μ|", "Entropy, last 10", "Tokens/s", "Time"}) +
      "<tbody>";
  std::map<std::string, std::vector<double>> comparable;  // by evaluation_key()
  for (const RunData& run : runs)
    if (const RunSummary summary = summarize(run); summary.after)
      comparable[evaluation_key(run, *summary.after)].push_back(summary.after->mean);
  std::vector<size_t> color(runs.size());
  const std::vector<SeedVariant> variants = group_by_seed(runs);
  for (size_t v = 0; v < variants.size(); ++v)
    for (const size_t i : variants[v].runs) color[i] = v;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunSummary summary = summarize(runs[i]);
    const std::string after = summary.after ? format_mean(*summary.after) : "–";
    const auto means = summary.after ? comparable[evaluation_key(runs[i], *summary.after)] : std::vector<double>();
    const bool is_best = means.size() > 1 && summary.after->mean == *std::max_element(means.begin(), means.end());
    out += body_row(
        "<i class=\"key s" + std::to_string(color[i] % 7) + "\"></i>" + escape_untrusted(runs[i].name),
        {summary.before ? format_mean(*summary.before) : "–", is_best ? "<b>" + after + "</b>" : after,
         summary.after ? format_interval(*summary.after) : "–", format_value(summary.best_reward, Unit::kNumber),
         format_value(summary.last_reward, Unit::kNumber), format_value(summary.masked, Unit::kFraction),
         format_power(summary.mismatch) + with_comma(staleness_text(runs[i])),
         format_value(summary.last_entropy, Unit::kNumber), format_value(summary.rollout_tokens_per_s, Unit::kCount),
         summary.seconds > 0 ? format_duration(summary.seconds) : "–"});
  }
  return out + "</tbody></table></div><p class=\"note\">Bold: the highest held-out " + measure +
         " among runs with the same evaluation problems and settings. The intervals cover the choice of evaluation "
         "problems, not the seed of the run.</p></section>";
}

std::string differing_settings(const std::vector<RunData>& runs) {
  std::vector<Settings> settings;
  std::set<std::string> paths;
  for (const RunData& run : runs) {
    settings.push_back(effective_settings(run));
    for (const auto& [path, value] : settings.back()) paths.insert(path);
  }
  std::vector<std::string> names{"Setting"};
  for (const RunData& run : runs) names.push_back(escape_untrusted(run.name));
  std::string rows;
  for (const std::string& path : paths) {
    std::vector<std::string> cells;
    std::set<std::string> distinct;
    for (const Settings& run_settings : settings) {
      const auto found = run_settings.find(path);
      cells.push_back(found == run_settings.end() || found->second.empty() ? "–" : found->second);
      distinct.insert(found == run_settings.end() ? "" : found->second);
    }
    cells = remove_common_prefix(cells);
    for (std::string& cell : cells) cell = escape_untrusted(shorten(cell, 160));
    const bool is_name = path == "run.name" || path == "run.dir";
    if (distinct.size() > 1 && !is_name) rows += body_row("<code>" + escape_untrusted(path) + "</code>", cells);
  }
  if (rows.empty()) return "";
  return "<section><h2>Settings that differ</h2><div class=\"scroll\"><table class=\"text\">" + header_row(names) +
         "<tbody>" + rows + "</tbody></table></div></section>";
}

std::string numbers_table(const RunData& run) {
  std::set<std::string> unnamed;
  for (const MetricRow& row : run.metrics) {
    if (row.phase != "rl") continue;
    for (const auto& [key, value] : row.values) unnamed.insert(key);
  }
  unnamed.erase("updates");
  std::string rows;
  for (const NamedMetric& metric : kNamedMetrics) {
    rows += summary_row(run, metric.key, metric.name, metric.unit);
    unnamed.erase(metric.key);
  }
  for (const std::string& key : unnamed)
    rows += summary_row(run, key, "<code>" + escape_untrusted(key) + "</code>", Unit::kNumber);
  if (rows.empty()) return "";
  return "<section><h2>All metrics</h2><p class=\"note\">Over the RL steps.</p><div class=\"scroll\"><table>" +
         header_row({"Metric", "First", "Last", "Mean", "Minimum", "Maximum"}) + "<tbody>" + rows +
         "</tbody></table></div></section>";
}

}  // namespace keel
