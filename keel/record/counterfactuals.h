#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace keel {

/// What a method would have done to the recorded tokens of a run, as `keel tokens` tells it.
struct Counterfactual {
  struct Difference {  // of tokens of one text
    std::string text;
    int64_t by_the_run = 0, by_it = 0;  // held back
    double change = 0;                  // share of the whole change of weights
  };
  std::string method;                                     // with its parameters where they are not its own
  double held = 0, held_positive = 0, held_negative = 0;  // shares of tokens, of those with A > 0, with A < 0
  double outside = 0;                                     // share of tokens beyond the boundary, held back or not
  int64_t both = 0, only_the_run = 0, only_it = 0;        // tokens that are held back by
  double weight_change = 0, cosine = 0;                   // of coefficient times weight, against the run's; may be NaN
  std::vector<Difference> differences = {};               // the largest ones

  /// Tokens that both hold back, of those that one of them does; NaN where neither does.
  double overlap() const { return static_cast<double>(both) / static_cast<double>(both + only_the_run + only_it); }
};

/// What thresholds of the run's method would leave outside, as `keel advise` tells it.
struct ThresholdAdvice {
  struct Row {
    double threshold = 0;
    double outside = 0, positive = 0, negative = 0;           // shares of tokens
    double mean_mu = 0, mean_entropy = 0;                     // of those outside; NaN where there are none
    std::vector<std::pair<std::string, int64_t>> texts = {};  // that are outside most often, and how often
  };
  std::string refusal = {};  // why there is none
  std::string method = {};
  double own = 0;  // the run's threshold
  std::vector<Row> rows = {};
  double target = 0;
  std::string recommended = {};  // the setting that comes nearest to the target; empty: no threshold leaves a token out
  double recommended_share = 0;
};

/// Both, for the newest of the recorded steps.
struct Counterfactuals {
  std::string refusal = {};  // why nothing can be told; empty as well where nobody asked
  bool is_damaged = false;   // for a record says what cannot be
  int64_t tokens = 0, steps = 0, first_step = 0, last_step = 0;  // that were asked about
  Counterfactual own = {};                                       // the run's method: shares alone
  std::vector<Counterfactual> others = {};
  std::vector<std::string> not_asked = {};  // methods that need what is not recorded, and what that is
  ThresholdAdvice advice = {};
};

}  // namespace keel
