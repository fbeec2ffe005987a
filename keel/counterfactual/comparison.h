#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "keel/counterfactual/method_spec.h"
#include "keel/record/tokens/token_row.h"

namespace keel {

/// The fraction of tokens that are masked or outside.
struct TokenFraction {
  int64_t tokens = 0, count = 0;

  void add(bool counted) { ++tokens, count += counted; }
  double fraction() const { return tokens == 0 ? 0 : static_cast<double>(count) / static_cast<double>(tokens); }
};

/// The fraction over all tokens and by the sign of the advantage (0: neither).
struct BySign {
  TokenFraction all, positive, negative;
  void add(float advantage, bool counted);
};

/// The mean of the values that are not NaN.
struct RunningMean {
  double sum = 0;
  int64_t count = 0;

  void add(double value);
  double mean() const;  // NaN without values
};

/// A method's decisions over tokens: blocked (masked), or outside the boundary (a method without a mask may leave
/// tokens there).
struct Decisions {
  BySign blocked, outside;
  RunningMean mu, entropy;  // sampler probability and policy entropy of the tokens outside
};

/// Differences between a method and the run's own method for tokens of one text.
struct TokenTypeDifference {
  std::string token;
  int64_t tokens = 0, blocked_by_run = 0, blocked_by_method = 0, outside = 0;
  double change = 0;  // the sum of |difference of coefficient times weight|
};

/// What a method would have done to the recorded tokens.
struct MethodComparison {
  MethodSpec spec;
  Decisions decisions;
  int64_t both = 0, only_run = 0, only_method = 0;  // number of tokens blocked by them
  // u: coefficient times weight of the run, v: of the method. Both multiply grad log pi.
  double weight_change = 0;                // |v - u| / |u|, 2-norms; NaN if u is 0
  double sum_change = 0;                   // (sum of v - sum of u) / sum of |u|
  double cosine = 0;                       // of u and v
  std::vector<TokenTypeDifference> types;  // largest differences first
};

/// Tokens of one text and one sign of the advantage that the run's own method left outside.
struct RunTokenType {
  std::string token;
  bool positive = true;
  TokenFraction outside;
  RunningMean mu, entropy;  // of the tokens outside
};

/// The comparison of the run's own method with others on recorded tokens.
struct TokenComparison {
  std::string method, centering = "none";  // of the run
  int64_t tokens = 0, first_step = 0, last_step = 0, steps = 0;
  Decisions run_decisions;
  RunningMean choices, more_choices;    // tokens that truncated sampling kept; 1 if these are more than one, else 0
  std::vector<RunTokenType> run_types;  // most often outside first
  std::vector<MethodComparison> methods;
  std::vector<std::string> refused;  // methods that cannot be evaluated, with the reason
};

/// Called for each batch of rows with the decisions of each method, as contiguous CPU tensors.
using OnDecisions = std::function<void(const std::vector<TokenRow>&, const std::vector<TokenDecision>&)>;

/// What to compare.
struct ComparisonRequest {
  std::vector<MethodSpec> methods = {};
  bool skip_unsupported = false;  // adds a method that cannot be evaluated to `refused` instead of failing
  OnDecisions on_decisions = {};
};

/// Compares the methods on these records, which are read in batches.
TokenComparison compare_methods(const std::vector<std::filesystem::path>& files, const ComparisonRequest& request);

}  // namespace keel
