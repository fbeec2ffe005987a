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

/// One line of metrics.jsonl; keys whose value is a word are left out.
struct MetricRow {
  std::string phase;  // "sft", "rl" or "eval"
  int64_t step = 0;
  std::map<std::string, double, std::less<>> values;
  std::string extent = {};  // of an evaluation on a part of its rows: which part
  std::map<std::string, Json, std::less<>> details = {};  // lists and objects: histograms, blocked tokens
};

/// One line of samples.jsonl; the per-token vectors are empty where nothing was recorded, NaN where a value is missing.
struct Sample {
  std::string phase;
  int64_t step = 0;
  std::string prompt;
  std::string completion;
  std::string answer;  // that the reward compared with; empty where there is none
  double reward = std::numeric_limits<double>::quiet_NaN();
  double advantage = std::numeric_limits<double>::quiet_NaN();
  std::string finish;               // "stop", "length" or empty
  std::vector<std::string> tokens;  // [T] text of each token of the completion
  std::vector<double> logp, behavior_logp, coefficient, divergence, threshold;  // [T]
  std::vector<bool> kept;                                                       // [T]
};

/// What a run folder says, as plain values.
struct RunData {
  std::string name;    // the folder's name
  std::string config;  // config.yaml as text, empty if there is none
  std::map<std::string, std::string> used = {};  // used.json: "section.key" to value
  std::vector<MetricRow> metrics;  // in the order written
  std::vector<std::string> changes =
      {};                        // lines of log.txt: on the way, what evaluations measure by or on became another
  std::vector<Sample> samples;   // every line, or evenly spaced ones when there are more than `kMaxSamples`
  RecordedTokens recorded = {};  // of token records, where `read_recorded_tokens` was asked for them
};

inline constexpr size_t kMaxSamples = 1024;  // keeps the memory of a report small however long the run was

/// The rows of a run folder's metrics.jsonl, one after the other; one that is not a run's is refused (exit code 3).
void for_each_metric_row(const std::filesystem::path& folder, const std::function<void(MetricRow)>& take);
/// A row as it is written there.
MetricRow metric_row(std::string_view line);
/// The rows of its samples.jsonl as texts for people; none where there is no such file.
std::vector<ExportedSample> exported_samples(const std::filesystem::path& folder);

/// Reads a run folder. A torn last line, which an interrupted run leaves, is ignored; any other broken line is an
/// error.
RunData read_run(const std::filesystem::path& folder);

/// The curve of one metric over the steps of a phase, a gap where a row lacks it; empty if no row has it.
std::vector<ChartPoint> metric_curve(const RunData& run, std::string_view phase, std::string_view key);

/// One evaluation with its 95 % interval (equal to the mean where the interval is missing).
struct EvalPoint {
  int64_t step = 0;
  double mean = 0, low = 0, high = 0;
  int64_t count = 0;
  bool is_accuracy = true;  // the mean is a share of right answers; else it is one of rewards of any kind
  std::string extent = {};  // "512 of 602 rows (eval.prompts)"; empty: all

  const char* name() const { return is_accuracy ? "accuracy" : "reward"; }
};

/// The numbers one would quote about a run; NaN where the run has none.
struct RunSummary {
  std::vector<EvalPoint> evals;                           // from the one before RL on
  std::optional<EvalPoint> before, after;                 // around RL; only `after` when there was a single evaluation
  std::optional<double> sft_loss_before, sft_loss_after;  // on held-out rows; only `after` when it was measured once
  double best_reward = std::numeric_limits<double>::quiet_NaN();
  int64_t best_reward_step = 0;
  double last_reward = std::numeric_limits<double>::quiet_NaN();  // mean over the last ten steps
  double masked = std::numeric_limits<double>::quiet_NaN();       // means over all RL steps from here on
  double mismatch = std::numeric_limits<double>::quiet_NaN();
  double entropy_last = std::numeric_limits<double>::quiet_NaN();
  double rollout_tokens_per_s = std::numeric_limits<double>::quiet_NaN();  // of all steps' tokens and time together
  double train_tokens_per_s = std::numeric_limits<double>::quiet_NaN();
  double seconds = 0;  // steps and checkpoints of all phases
  int64_t rl_steps = 0, sft_steps = 0;
};

RunSummary summarize(const RunData& run);

/// The row as other tools take it.
ExportedStep exported_step(MetricRow row);

/// The folder's own name, also where it is written with a slash or a dot at its end.
std::string run_name(const std::filesystem::path& folder);

}  // namespace keel
