#include "keel/record/run_data.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "keel/core/files/line_reader.h"
#include "keel/core/json_reader.h"
#include "keel/record/tools/event_texts.h"

namespace keel {
namespace {

constexpr size_t kMaxLineBytes = size_t{64} << 20, kMaxConfigBytes = size_t{1} << 20;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::string_view kBlockedTokens = "trust_region/blocked_tokens";

/// Calls `visit` with each line's object. Skips an incomplete last line, which a crash leaves.
void for_each_line(const std::filesystem::path& path, const std::function<void(const Json&)>& visit) {
  LineReader lines = LineReader::open(path);
  std::string line;
  for (size_t number = 1; lines.next(line, kMaxLineBytes); ++number) {
    if (line.size() > kMaxLineBytes)
      fail(ExitCode::kBadInput, path.string(), ":", number, ": the line exceeds ", kMaxLineBytes,
           " bytes; repair or delete it");
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json object = try_parse_json(line, {.depth = kDataDepth}).value_or(Json());
    if (object.is_object() && object.contains("phase") && object["phase"].is_string() && object.contains("step") &&
        object["step"].is_number_integer()) {
      visit(object);
      continue;
    }
    if (lines.had_newline())
      fail(ExitCode::kBadInput, path.string(), ":", number, ": got \"", line.substr(0, 60),
           line.size() > 60 ? "..." : "",
           "\"; expected a JSON object with \"phase\" and \"step\". Repair or delete the line.");
  }
}

double number_or_nan(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : kNan;
}

std::string text_or_empty(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Formats a value as plain text: a string without quotes, a list with commas.
std::string to_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  for (const Json& item : value) out += (out.empty() ? "" : ", ") + to_text(item);
  return out;
}

std::vector<double> numbers_or_empty(const Json& object, const char* key) {
  std::vector<double> values;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return values;
  for (const Json& value : *found) values.push_back(value.is_number() ? value.get<double>() : kNan);
  return values;
}

MetricRow read_metric_row(const Json& object) {
  MetricRow row{object["phase"].get<std::string>(), object["step"].get<int64_t>(), {}};
  for (const auto& [key, value] : object.items()) {
    if (value.is_number() && key != "step") row.values[key] = value.get<double>();
    if (value.is_structured()) row.details[key] = value;
  }
  row.subset = text_or_empty(object, "eval/extent");
  return row;
}

Sample read_sample(const Json& object) {
  Sample sample;
  sample.phase = object["phase"].get<std::string>();
  sample.step = object["step"].get<int64_t>();
  sample.prompt = text_or_empty(object, "prompt");
  sample.completion = text_or_empty(object, "completion");
  if (const auto answer = object.find("answer"); answer != object.end() && !answer->is_null())
    sample.answer = to_text(*answer);
  sample.reward = number_or_nan(object, "reward");
  sample.advantage = number_or_nan(object, "advantage");
  sample.finish = text_or_empty(object, "finish");
  if (const auto tokens = object.find("tokens"); tokens != object.end() && tokens->is_array()) {
    for (const Json& token : *tokens)
      sample.tokens.push_back(token.is_string() ? token.get<std::string>() : token.dump());
  }
  if (const auto kept = object.find("kept"); kept != object.end() && kept->is_array()) {
    for (const Json& flag : *kept) sample.kept.push_back(!flag.is_boolean() || flag.get<bool>());
  }
  sample.logp = numbers_or_empty(object, "logp");
  sample.behavior_logp = numbers_or_empty(object, "behavior_logp");
  sample.coefficient = numbers_or_empty(object, "coefficient");
  sample.divergence = numbers_or_empty(object, "divergence");
  sample.threshold = numbers_or_empty(object, "threshold");
  return sample;
}

/// Keeps every sample up to the limit, then every second, every fourth and so on, and always the last.
std::vector<Sample> read_samples(const std::filesystem::path& path) {
  std::vector<Sample> samples;
  std::optional<Sample> skipped;
  size_t stride = 1, index = 0;
  for_each_line(path, [&](const Json& object) {
    skipped.reset();
    if (index++ % stride != 0) {
      skipped = read_sample(object);
      return;
    }
    samples.push_back(read_sample(object));
    if (samples.size() <= kMaxSamples) return;
    stride *= 2;
    size_t position = 0;
    std::erase_if(samples, [&](const Sample&) { return position++ % 2 != 0; });
  });
  if (skipped) samples.push_back(std::move(*skipped));
  return samples;
}

/// Averages the last `max_points` points that have a value.
double mean_of_last_points(const std::vector<ChartPoint>& curve,
                           size_t max_points = std::numeric_limits<size_t>::max()) {
  double sum = 0;
  size_t count = 0;
  for (auto point = curve.rbegin(); point != curve.rend() && count < max_points; ++point) {
    if (!is_plottable(point->y)) continue;
    sum += point->y;
    ++count;
  }
  return count == 0 ? kNan : sum / static_cast<double>(count);
}

std::optional<EvalPoint> parse_evaluation(const MetricRow& row) {
  const auto value = [&](const char* key, double fallback) {
    const auto found = row.values.find(key);
    return found != row.values.end() && is_plottable(found->second) ? found->second : fallback;
  };
  const double accuracy = value("eval/accuracy", kNan),
               mean = is_plottable(accuracy) ? accuracy : value("eval/reward", kNan);
  if (row.phase != "eval" || !is_plottable(mean)) return std::nullopt;
  const double count = std::clamp(value("eval/count", 0), 0.0, 1e15);
  return EvalPoint{row.step,
                   mean,
                   value("eval/low", mean),
                   value("eval/high", mean),
                   static_cast<int64_t>(count),
                   is_plottable(accuracy),
                   row.subset};
}

/// Collects the evaluations from the last one before RL on. It uses the order of rows, because an evaluation right
/// before the first RL step may have the number of the previous step or of that step.
void summarize_evals(const RunData& run, RunSummary& summary) {
  size_t num_before_rl = 0;
  bool rl_began = false;
  for (const MetricRow& row : run.metrics) {
    if (row.phase == "rl" && !rl_began) {
      rl_began = true;
      num_before_rl = summary.evals.size();
    }
    if (const std::optional<EvalPoint> eval = parse_evaluation(row)) summary.evals.push_back(*eval);
  }
  if (num_before_rl > 1)
    summary.evals.erase(summary.evals.begin(), summary.evals.begin() + static_cast<long>(num_before_rl - 1));
  if (summary.evals.empty()) return;
  const bool single = summary.evals.size() == 1;
  const bool single_is_before = single && rl_began && num_before_rl > 0;
  const bool comparable = run.changes.empty() || single;
  if (comparable && (!single || single_is_before)) summary.before = summary.evals.front();
  if (!single_is_before) summary.after = summary.evals.back();
}

/// Returns total amount / total time, not the mean of the rates.
double total_rate(const RunData& run, std::string_view rate, std::string_view time) {
  double amount = 0, seconds = 0;
  for (const MetricRow& row : run.metrics) {
    const auto per_second = row.values.find(rate), duration = row.values.find(time);
    if (row.phase != "rl" || per_second == row.values.end() || duration == row.values.end()) continue;
    if (!is_plottable(per_second->second) || !is_plottable(duration->second)) continue;
    amount += per_second->second * duration->second;
    seconds += duration->second;
  }
  return seconds > 0 ? amount / seconds : kNan;
}

}  // namespace

std::string run_name(const std::filesystem::path& folder) {
  return std::filesystem::path(full_path(folder)).filename().string();
}

void for_each_metric_row(const std::filesystem::path& folder, const std::function<void(MetricRow)>& visit) {
  const std::filesystem::path metrics = folder / "metrics.jsonl";
  if (!path_exists(metrics)) {
    fail(ExitCode::kBadInput, folder.string(), ": is not a run folder (no metrics.jsonl). ",
         "Give a folder that `keel train` or `keel quickstart` wrote, such as runs/quickstart");
  }
  for_each_line(metrics, [&](const Json& object) { visit(read_metric_row(object)); });
}

MetricRow parse_metric_row(std::string_view line) { return read_metric_row(parse_json(line, {.depth = kDataDepth})); }

namespace {

/// Returns whether a log line reports changed reward files or evaluation rows, so that later evaluations are not
/// comparable.
bool changes_evaluations(std::string_view line, const RunData& run) {
  const auto held_out = run.used.find("data.held_out");
  const bool splits_training_files = held_out != run.used.end() && held_out->second != "0" && held_out->second != "0.0";
  const auto contains = [&](const char* text) { return line.find(text) != std::string_view::npos; };
  return (line.starts_with("reward file ") && contains(" was changed: ")) ||
         contains(splits_training_files ? "data.files: the rows are not those"
                                        : "data.eval_files: the rows are not those");
}

}  // namespace

RunData read_run(const std::filesystem::path& folder) {
  const std::filesystem::path samples = folder / "samples.jsonl";
  RunData run;
  run.name = run_name(folder);
  for_each_metric_row(folder, [&](MetricRow row) { run.metrics.push_back(std::move(row)); });
  if (path_exists(samples)) run.samples = read_samples(samples);
  if (path_exists(folder / "config.yaml")) run.config = read_file(folder / "config.yaml", kMaxConfigBytes);
  if (path_exists(folder / "used.json")) {
    const Json used = read_json_file(folder / "used.json");
    for (const auto& [path, value] : used.items()) run.used[path] = to_text(value);
  }
  if (path_exists(folder / "log.txt")) {
    std::istringstream log(read_file(folder / "log.txt"));
    for (std::string line; std::getline(log, line);) {
      constexpr std::string_view kWarning = "warning: ";
      if (line.starts_with(kWarning)) line.erase(0, kWarning.size());
      if (changes_evaluations(line, run)) run.changes.push_back(line);
    }
  }
  return run;
}

void count_rl_steps_from_one(RunData& run) {
  const auto first = std::ranges::find(run.metrics, "rl", &MetricRow::phase);
  if (first == run.metrics.end()) return;
  const int64_t steps_before = first->step - 1;
  const auto renumber = [&](int64_t& step) { step = std::max<int64_t>(0, step - steps_before); };
  for (MetricRow& row : run.metrics)
    if (row.phase != "sft" && !row.values.contains("sft/eval_loss")) renumber(row.step);
  for (Sample& sample : run.samples)
    if (sample.phase != "sft") renumber(sample.step);
  for (RecordedStep& step : run.recorded.steps) renumber(step.step);
  for (RecordedMismatch::Token& token : run.recorded.mismatch.largest) renumber(token.step);
  for (RecordedCompletion& completion : run.recorded.rows.completions) renumber(completion.step);
}

std::vector<ChartPoint> metric_curve(const RunData& run, std::string_view phase, std::string_view key) {
  std::vector<ChartPoint> curve;
  bool any = false;
  for (const MetricRow& row : run.metrics) {
    if (row.phase != phase) continue;
    const auto found = row.values.find(key);
    const bool has_value = found != row.values.end() && is_plottable(found->second);
    any = any || has_value;
    curve.push_back({static_cast<double>(row.step), has_value ? found->second : kNan});
  }
  if (!any) curve.clear();
  return curve;
}

ExportedStep make_exported_step(MetricRow row) {
  constexpr double kMaxTime = 1e11;  // the year 5138
  const auto clock = row.values.find(kClockMetric);
  const bool is_valid = clock != row.values.end() && clock->second >= 0 && clock->second < kMaxTime;
  const double time = is_valid ? clock->second : 0;
  ExportedStep step{.phase = std::move(row.phase), .step = row.step, .time = time, .values = std::move(row.values)};
  for (const auto& [name, value] : row.details) {
    if (const std::optional<Histogram> histogram = parse_histogram(value)) {
      step.histograms[name] = *histogram;
    } else if (name == kBlockedTokens) {
      if (const std::string text = blocked_tokens_text(value); !text.empty()) step.texts[name] = text;
    }
  }
  return step;
}

std::vector<ExportedSample> read_exported_samples(const std::filesystem::path& folder) {
  std::vector<ExportedSample> samples;
  const std::filesystem::path path = folder / "samples.jsonl";
  if (!path_exists(path)) return samples;
  for_each_line(path, [&](const Json& row) { samples.push_back(make_exported_sample(row)); });
  return samples;
}

RunSummary summarize(const RunData& run) {
  RunSummary summary;
  summarize_evals(run, summary);
  for (const ChartPoint& point : metric_curve(run, "eval", "sft/eval_loss")) {
    if (!is_plottable(point.y)) continue;
    if (!summary.sft_loss_before) summary.sft_loss_before = summary.sft_loss_after;
    summary.sft_loss_after = point.y;
  }
  const std::vector<ChartPoint> reward = metric_curve(run, "rl", "reward/mean");
  for (const ChartPoint& point : reward) {
    if (!is_plottable(point.y) || point.y <= summary.best_reward) continue;
    summary.best_reward = point.y;
    summary.best_reward_step = static_cast<int64_t>(point.x);
  }
  summary.last_reward = mean_of_last_points(reward, 10);
  summary.masked = mean_of_last_points(metric_curve(run, "rl", "trust_region/masked"));
  summary.mismatch = mean_of_last_points(metric_curve(run, "rl", "mismatch/abs_prob_mean"));
  summary.last_entropy = mean_of_last_points(metric_curve(run, "rl", "policy/entropy"), 10);
  summary.rollout_tokens_per_s = total_rate(run, "throughput/rollout_tokens_per_s", "time/rollout");
  summary.train_tokens_per_s = total_rate(run, "throughput/train_tokens_per_s", "time/train");
  for (const MetricRow& row : run.metrics) {
    summary.rl_steps += row.phase == "rl";
    summary.sft_steps += row.phase == "sft";
    for (const char* key : {"time/step", "time/checkpoint"}) {
      const auto found = row.values.find(key);
      if (found != row.values.end() && is_plottable(found->second)) summary.seconds += found->second;
    }
  }
  return summary;
}

}  // namespace keel
