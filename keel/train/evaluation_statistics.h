#pragma once

// What k samples per prompt say about a policy. Every measure is a number per prompt, averaged over prompts, with a
// 95 % bootstrap interval over prompts:
//
//   avg@n    the mean reward of all n samples
//   pass@k   the probability that of k of the n samples at least one is solved: 1 - C(n-c, k) / C(n, k), unbiased
//   maj@k    whether the answer that most of k samples give is solved, averaged over the n/k (rounded down) blocks of k
//            samples that follow one another: unbiased, since samples are interchangeable
//
// A sample is solved when its reward is at least kSolved.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "keel/core/json.h"

namespace keel {

constexpr double kSolved = 0.5;

/// One prompt's samples, judged.
struct JudgedPrompt {
  std::string source;                // the task or data set it came from
  std::vector<double> rewards;       // one per sample
  std::vector<std::string> answers;  // what each sample says in the end; "" says nothing and has no vote
};

struct Estimate {
  double mean = 0, low = 0, high = 0;
};

struct SourceStatistics {
  struct Measure {
    std::string name;
    Estimate estimate;
  };
  std::string source;
  int64_t prompts = 0, samples = 0;
  std::vector<Measure> measures;
};

/// `solved` of `samples` are; 1 <= k <= samples.
double pass_at_k(int64_t samples, int64_t solved, int64_t k);

/// A number for each answer, the same for answers that mean the same: equal texts, or equal to the math verifier. Empty
/// answers have -1.
std::vector<int64_t> answer_classes(std::span<const std::string> answers);

/// `classes` as above. Of answers with equally many votes the one given first wins; whether it is solved says the
/// sample that gave it first. A block without an answer counts as 0.
double majority_at_k(std::span<const int64_t> classes, std::span<const double> rewards, int64_t k);

/// The mean, and the 2.5 and 97.5 percentiles of the means of 2,000 resamples; a pure function of values and seed.
Estimate bootstrap_mean(std::span<const double> values, uint64_t seed);

/// By source, in order of first appearance; then "all", where there are several. All prompts have the same number of
/// samples, which is at least as large as every k.
std::vector<SourceStatistics> evaluation_statistics(std::span<const JudgedPrompt> prompts, std::span<const int64_t> ks,
                                                    uint64_t seed);

/// {"math": {"prompts": 500, "samples": 8, "pass@1": {"mean": 0.5, "low": 0.45, "high": 0.55}, ...}, ...}
Json to_json(std::span<const SourceStatistics> statistics);

/// One row per source and measure, for a terminal.
std::string to_table(std::span<const SourceStatistics> statistics);

}  // namespace keel
