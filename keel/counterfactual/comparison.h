#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "keel/counterfactual/asked_method.h"
#include "keel/record/tokens/token_row.h"

namespace keel {

/// How many of some tokens were held back.
struct HeldBack {
  int64_t tokens = 0, held_back = 0;

  void add(bool held) { ++tokens, held_back += held; }
  double share() const { return tokens == 0 ? 0 : static_cast<double>(held_back) / static_cast<double>(tokens); }
};

/// The same of all tokens and by the sign of the advantage; one of 0 has neither.
struct BySign {
  HeldBack all, positive, negative;
  void add(float advantage, bool held);
};

/// A number's mean over the tokens for which it is known.
struct RunningMean {
  double sum = 0;
  int64_t count = 0;

  void add(double value);
  double mean() const;  // NaN where there is none
};

/// What was decided about one or more tokens: blocked, or left beyond the boundary (which a method without a mask may
/// do), and what kind of token that happened to.
struct Decisions {
  BySign blocked, outside;
  RunningMean mu, entropy;  // of the sampler's probability and of the policy's entropy, over those that are outside
};

/// What a method and the run's own did to tokens of one text.
struct TypeDifference {
  std::string token;
  int64_t tokens = 0, blocked_by_run = 0, blocked_by_method = 0, outside = 0;
  double change = 0;  // the sum of |difference of coefficient times weight|
};

/// What a method would have done to the tokens that the run's own judged.
struct MethodAnswer {
  AskedMethod asked;
  Decisions decisions;
  int64_t both = 0, only_run = 0, only_method = 0;  // tokens that are blocked by
  // Of coefficient times weight, which multiplies grad log pi: u of the run, v of the method.
  double weight_change = 0;           // |v - u| / |u|, 2-norms; NaN where the run's are all 0
  double sum_change = 0;              // (sum of v - sum of u) / sum of |u|
  double cosine = 0;                  // of u and v
  std::vector<TypeDifference> types;  // those that differ most, first
};

/// Tokens of one text that the run's own method left outside, for advantages of one sign.
struct OwnType {
  std::string token;
  bool positive = true;
  HeldBack outside;         // of tokens of that text and sign
  RunningMean mu, entropy;  // over those outside
};

/// What recorded tokens say of the run's own method and of others.
struct TokenAnswers {
  std::string method;  // the run's own
  int64_t tokens = 0, first_step = 0, last_step = 0, steps = 0;
  Decisions own;
  std::vector<OwnType> own_types;  // the most outside, first
  std::vector<MethodAnswer> methods;
  std::vector<std::string> refused;  // of all methods: which could not be asked, and why
};

/// Called with the rows of a piece and what each method decided about them, in plain arrays on the host.
using SeeDecided = std::function<void(const std::vector<TokenRow>&, const std::vector<TokenDecision>&)>;

/// What is asked about records.
struct TokenQuestion {
  std::vector<AskedMethod> methods = {};
  bool leave_out = false;  // a method that cannot be asked is left out and told, and is no error
  SeeDecided see = {};
};

/// The answers over these records, read piece by piece.
TokenAnswers answer(const std::vector<std::filesystem::path>& files, const TokenQuestion& question);

}  // namespace keel
