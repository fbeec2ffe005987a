#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/counterfactual/comparison.h"

namespace keel {

/// The share of tokens that a threshold should hold back where nobody says otherwise: docs/tokens.md has the reason.
inline constexpr double kTargetShare = 0.005;

/// A method with its threshold set to `value`: delta, or low and high, which keep their proportion, `high` being the
/// value; where one of the two is no limit it stays so, and the other one is the value.
AskedMethod with_threshold(const AskedMethod& asked, double value);

/// The threshold that a method has now.
double threshold_of(const AskedMethod& asked);

/// Thresholds from 1e-4 to 1 for a total variation, to 100 for what has no bound: `in_decade` in every power of ten (3:
/// 1, 2, 5; 10: to two digits), those that the method takes.
std::vector<double> thresholds_for(const AskedMethod& asked, int in_decade);

/// The method of the run, as it was in the step of this record.
AskedMethod method_of_run(const std::filesystem::path& file);

/// What thresholds would hold back, and the one whose share is nearest to the target.
struct Advice {
  TokenAnswers answers;             // of the run's own method
  std::vector<double> thresholds;   // that were asked for
  std::vector<MethodAnswer> shown;  // what each would do
  double target = kTargetShare;
  std::optional<double> best = {};  // nothing where every threshold leaves all tokens inside
  double best_share = 0;
};

/// Of a method over these records. Refuses (exit code 2) one without a threshold that moves alone.
Advice advise(const std::vector<std::filesystem::path>& files, const AskedMethod& asked,
              const std::vector<double>& thresholds, double target);

/// Up to three texts that an answer has outside most often.
std::vector<const TypeDifference*> most_often_outside(const MethodAnswer& answer);

/// The settings that train with a threshold, "objective.method=dppo_tv objective.delta=null objective.delta_low=0.15
/// ... 'objective.parameters=[]'", to be typed beside any configuration, whichever thresholds and parameters that has.
std::string setting_for(const AskedMethod& asked, double threshold);

}  // namespace keel
