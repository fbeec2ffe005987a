#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keel/record/charts/chart_scale.h"
#include "keel/record/recorded_tokens.h"
#include "keel/record/tools/exported_run.h"

namespace keel {

/// One line of metrics.jsonl, without string values.
struct MetricRow {
  std::string phase;  // "sft", "rl" or "eval"
  int64_t step = 0;
  std::map<std::string, double, std::less<>> values;
  std::string subset = {};                                // the part of the rows that an evaluation used; empty: all
  std::map<std::string, Json, std::less<>> details = {};  // lists and objects: histograms, blocked tokens
};

/// One line of samples.jsonl. Per-token vectors are empty if nothing was recorded; missing values are NaN.
struct Sample {
  std::string phase;
  int64_t step = 0;
  std::string prompt;
  std::string completion;
  std::string answer;  // the prompt's correct answer, or empty
  double reward = std::numeric_limits<double>::quiet_NaN();
  double advantage = std::numeric_limits<double>::quiet_NaN();
  std::string finish;               // "stop", "length" or empty
  std::vector<std::string> tokens;  // [T] text of each token of the completion
  std::vector<double> logp, behavior_logp, coefficient, divergence, threshold;  // [T]
  std::vector<bool> kept;                                                       // [T]
};

/// The contents of a run folder.
struct RunData {
  std::string name;                              // the folder's name
  std::string config;                            // text of config.yaml, or empty
  std::map<std::string, std::string> used = {};  // used.json: "section.key" to value
  std::vector<MetricRow> metrics;                // in the order written
  std::vector<std::string> changes = {};         // lines of log.txt about changed reward files or evaluation data
  std::vector<Sample> samples;                   // every line, or evenly spaced ones above `kMaxSamples`
  RecordedTokens recorded = {};                  // token records, if read_recorded_tokens() was called
};

inline constexpr size_t kMaxSamples = 1024;  // limits the memory of a report

/// Calls `visit` for each row of metrics.jsonl. Throws an Error (exit code 3) if the folder is not a run.
void for_each_metric_row(const std::filesystem::path& folder, const std::function<void(MetricRow)>& visit);
/// Parses a line of metrics.jsonl.
MetricRow parse_metric_row(std::string_view line);
/// Reads samples.jsonl as readable texts; empty if the file is missing.
std::vector<ExportedSample> read_exported_samples(const std::filesystem::path& folder);

/// Reads a run folder. Ignores an incomplete last line; any other invalid line is an error.
RunData read_run(const std::filesystem::path& folder);

/// Makes the steps of RL count from 1, as the terminal does, with the evaluations, samples and token records between
/// them. The files count on from the steps of SFT.
void count_rl_steps_from_one(RunData& run);

/// Returns a metric over the steps of a phase, with gaps where rows lack it; empty if no row has it.
std::vector<ChartPoint> metric_curve(const RunData& run, std::string_view phase, std::string_view key);

/// One evaluation with its 95 % interval (equal to the mean if it is missing).
struct EvalPoint {
  int64_t step = 0;
  double mean = 0, low = 0, high = 0;
  int64_t count = 0;
  bool is_accuracy = true;  // the mean is a fraction of correct answers, else a mean reward
  std::string subset = {};  // "512 of 602 rows (eval.prompts)"; empty: all

  const char* name() const { return is_accuracy ? "accuracy" : "reward"; }
};

/// The main results of a run; NaN if missing.
struct RunSummary {
  std::vector<EvalPoint> evals;                           // starting with the last one before RL
  std::optional<EvalPoint> before, after;                 // before and after RL; only `after` for a single evaluation
  std::optional<double> sft_loss_before, sft_loss_after;  // on held-out rows; only `after` for a single measurement
  double best_reward = std::numeric_limits<double>::quiet_NaN();
  int64_t best_reward_step = 0;
  double last_reward = std::numeric_limits<double>::quiet_NaN();  // mean over the last ten steps
  double masked = std::numeric_limits<double>::quiet_NaN();       // means over all RL steps, like the following
  double mismatch = std::numeric_limits<double>::quiet_NaN();
  double last_entropy = std::numeric_limits<double>::quiet_NaN();
  double rollout_tokens_per_s = std::numeric_limits<double>::quiet_NaN();  // total tokens / total time
  double train_tokens_per_s = std::numeric_limits<double>::quiet_NaN();
  double seconds = 0;  // of steps and checkpoints in all phases
  int64_t rl_steps = 0, sft_steps = 0;
};

RunSummary summarize(const RunData& run);

/// Converts a row for export.
ExportedStep make_exported_step(MetricRow row);

/// Returns the folder's name, also for paths that end in a slash or a dot.
std::string run_name(const std::filesystem::path& folder);

}  // namespace keel
