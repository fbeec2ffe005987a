#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/counterfactual/comparison.h"

namespace keel {

/// Default fraction of tokens outside the trust region; docs/tokens.md has the reason.
inline constexpr double kTargetFraction = 0.005;

/// The method with its threshold set to `value`. low and high keep their ratio, with high = value; an infinite one
/// stays infinite, and the other becomes `value`.
MethodSpec with_threshold(const MethodSpec& spec, double value);

/// The current threshold of a method.
double threshold_of(const MethodSpec& spec);

/// Candidate thresholds that the method accepts: from 1e-4 to 1 for a total variation, to 100 for unbounded
/// divergences, `per_decade` in each decade (3: 1, 2, 5; 10: two digits).
std::vector<double> candidate_thresholds(const MethodSpec& spec, int per_decade);

/// The run's own method, with its parameters in the step of this record.
MethodSpec method_of_run(const std::filesystem::path& file);

/// How many tokens each threshold leaves outside, and the threshold whose fraction is nearest to the target.
struct Advice {
  TokenComparison comparison;                  // of the run's own method
  std::vector<double> thresholds;              // requested ones
  std::vector<MethodComparison> by_threshold;  // one per requested threshold
  double target = kTargetFraction;
  std::optional<double> best = {};  // none if no threshold leaves a token outside
  double best_fraction = 0;
};

/// Evaluates thresholds of a method on these records. A method without a single threshold is an error (exit code 2).
Advice advise(const std::vector<std::filesystem::path>& files, const MethodSpec& spec,
              const std::vector<double>& thresholds, double target);

/// The up to three token texts that are outside most often.
std::vector<const TokenTypeDifference*> most_often_outside(const MethodComparison& comparison);

/// Command-line settings that train with this threshold, whatever the configuration sets:
/// "objective.method=dppo_tv objective.delta=null objective.delta_low=0.15 ... 'objective.parameters=[]'".
std::string settings_for(const MethodSpec& spec, double threshold);

}  // namespace keel
