#pragma once

// Evaluation measures. Each is computed per prompt and averaged over prompts, with a 95 % interval over prompts
// (intervals.h):
//
//   avg@n    mean reward of all n samples (n is the minimum if prompts have different numbers of samples)
//   pass@k   probability that at least one of k of the n samples is solved: 1 - C(n-c, k) / C(n, k), unbiased
//   maj@k    whether the majority answer of k samples is solved, averaged over floor(n/k) consecutive blocks of k
//            samples; unbiased, because samples are exchangeable
//
// Samples without a reward are excluded from n. A prompt with fewer than k samples is excluded from pass@k and maj@k.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/evaluation/intervals.h"
#include "keel/reward/verdict.h"

namespace keel {

/// The scored samples of one prompt.
struct ScoredPrompt {
  std::string source;  // its task or data set
  std::vector<Verdict> samples;
};

struct Estimate {
  double mean = 0;
  std::optional<Interval> interval = {};  // none if the variance is unknown: equal rewards other than 0 and 1
  int64_t prompts = 0;                    // prompts in the mean; 0: the mean is undefined
};

struct SourceStatistics {
  struct Measure {
    std::string name;
    Estimate estimate;
  };
  std::string source;
  int64_t prompts = 0, samples = 0;  // samples: minimum per prompt
  int64_t unscored = 0;              // samples without a reward
  std::vector<Measure> measures;
};

struct EvaluationStatistics {
  SourceStatistics all;
  std::vector<SourceStatistics> sources;  // in order of first appearance
};

/// The names of all measures: avg@n, pass@k and maj@k for k = 1, 2, 4, ... up to `samples`.
std::vector<std::string> measure_names(int64_t samples);

/// pass@k if `solved` of `samples` are solved; 1 <= k <= samples.
double pass_at_k(int64_t samples, int64_t solved, int64_t k);

/// An equivalence class index per answer: equal texts share a class, and so do two math answers that the verifier
/// finds equal. Empty answers have -1.
std::vector<int64_t> answer_classes(std::span<const FinalAnswer> answers);

/// maj@k of answer_classes() and `solved` (1 or 0 per sample). The earliest answer wins a tie, and its first sample
/// decides whether it is solved. A block without answers counts as 0.
double majority_at_k(std::span<const int64_t> classes, std::span<const double> solved, int64_t k);

/// The measures over all prompts and per source; n is the minimum number of samples in each. If the rewards have only
/// two values, the interval of their mean is Wilson's, from the fraction of the higher value.
EvaluationStatistics evaluation_statistics(std::span<const ScoredPrompt> prompts);

/// {"prompts": 500, "samples": 8, "unjudged": 0, "pass@1": {"mean": 0.5, "low": 0.45, "high": 0.55}, ...}; a measure
/// without prompts is null, one that excludes some prompts has the key "prompts", and low and high are null without an
/// interval.
Json to_json(const SourceStatistics& statistics);

/// A terminal table with one row per source and measure, and rows over all sources if there are several.
std::string to_table(const EvaluationStatistics& statistics);

}  // namespace keel
