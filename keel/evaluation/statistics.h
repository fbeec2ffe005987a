#pragma once

// What k samples per prompt say about a policy. Every measure is a number per prompt, averaged over prompts, with a
// 95 % interval over prompts (intervals.h):
//
//   avg@n    the mean reward of all n samples (where prompts have different numbers of them, n is the least)
//   pass@k   the probability that of k of the n samples at least one is solved: 1 - C(n-c, k) / C(n, k), unbiased
//   maj@k    whether the answer that most of k samples give is solved, averaged over the n/k (rounded down) blocks of k
//            samples that follow one another: unbiased, since samples are interchangeable
//
// Samples that nobody judged are left out: n is what is left of a prompt's samples, and a prompt with fewer than k of
// them has no part in pass@k and maj@k.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/evaluation/intervals.h"
#include "keel/reward/verdict.h"

namespace keel {

/// One prompt's samples, judged.
struct JudgedPrompt {
  std::string source;  // the task or data set it came from
  std::vector<Verdict> samples;
};

struct Estimate {
  double mean = 0;
  std::optional<Interval> interval =
      {};               // nothing: equal rewards of an unknown kind, which say nothing of their spread
  int64_t prompts = 0;  // that have a part in it; 0: there is no such number
};

struct SourceStatistics {
  struct Measure {
    std::string name;
    Estimate estimate;
  };
  std::string source;
  int64_t prompts = 0, samples = 0;  // samples of each prompt, at the least
  int64_t unjudged = 0;              // of all its samples
  std::vector<Measure> measures;
};

struct EvaluationStatistics {
  SourceStatistics all;
  std::vector<SourceStatistics> sources;  // in order of first appearance
};

/// avg@n, pass@k and maj@k, as they are called everywhere; k is 1, 2, 4, ... up to `samples`.
std::vector<std::string> measure_names(int64_t samples);

/// `solved` of `samples` are; 1 <= k <= samples.
double pass_at_k(int64_t samples, int64_t solved, int64_t k);

/// A number for each answer, the same for answers that mean the same: equal texts, or, of two math answers, equal to
/// the verifier. Empty answers have -1.
std::vector<int64_t> answer_classes(std::span<const FinalAnswer> answers);

/// `classes` as above; `solved` is 1 or 0. Of answers with equally many votes the one given first wins; whether it is
/// solved says the sample that gave it first. A block without an answer counts as 0.
double majority_at_k(std::span<const int64_t> classes, std::span<const double> solved, int64_t k);

/// Each source has the measures of its own least number of samples. `right_or_wrong`: a reward can be nothing but 1 or
/// 0, so that the mean is a share; that all of them happen to be says nothing of the kind.
EvaluationStatistics evaluation_statistics(std::span<const JudgedPrompt> prompts, bool right_or_wrong);

/// {"prompts": 500, "samples": 8, "unjudged": 0, "pass@1": {"mean": 0.5, "low": 0.45, "high": 0.55}, ...}; a measure
/// that no prompt has a part in is null, one that only some have a part in says how many: "prompts". Where there is no
/// interval low and high are null.
Json to_json(const SourceStatistics& statistics);

/// One row per source and measure, for a terminal; then all sources together, where there are several.
std::string to_table(const EvaluationStatistics& statistics);

}  // namespace keel
