#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "keel/reward/functions/reward.h"

namespace keel {

/// What to do when a function fails on a sample.
enum class OnError { kStop, kZero, kSkip };

/// One function of a weighted sum.
struct RewardTerm {
  std::string name;
  double weight = 1;
  std::vector<std::string> sources;  // scores only prompts from these sources; empty: all
  std::unique_ptr<Reward> reward;
  bool training_only = false;  // a length penalty: evaluations leave it out

  bool applies_to(const std::string& source) const;
};

/// The rewards of a batch of samples.
struct RewardResult {
  std::vector<std::optional<double>> totals;              // std::nullopt: unscored
  std::vector<std::vector<std::optional<double>>> terms;  // [function][sample], before the weights
  std::vector<std::string> failures;                      // one message per failure
  std::vector<std::string> notes = {};                    // remarks of functions about their rewards
};

/// The weighted sum of the functions that apply to a sample.
class RewardSum {
 public:
  RewardSum(std::vector<RewardTerm> terms, OnError on_error) : terms_(std::move(terms)), on_error_(on_error) {}

  /// On a failure, kStop throws an Error (kRewardProgramFailed) that names function and sample, kZero sets the
  /// function's reward to 0, and kSkip leaves the function out for that sample. NaN, infinite rewards, and sums above
  /// 1e18 are failures.
  RewardResult score(std::span<const RewardSample> samples) const;

  /// Checks a prompt's answer before sampling. Returns why a function for this source cannot use it; empty if all can.
  std::string answer_error(const Json& answer, const std::string& source) const;

  /// Warns about functions that apply to none of the data's sources, and about sources without a function. Throws an
  /// Error (kBadConfiguration) if no function applies to any source.
  std::vector<std::string> source_warnings(const std::set<std::string>& sources) const;

  /// Returns whether every reward is 1 (correct) or 0, so that the mean is an accuracy: each prompt has one function,
  /// which scores final answers with weight 1. Length penalties are ignored.
  bool is_binary() const;

  const std::vector<RewardTerm>& terms() const { return terms_; }

 private:
  Scores score_term(const RewardTerm& term, std::span<const RewardSample> samples, RewardResult& result) const;
  std::optional<double> substitute_reward(const std::string& failure, RewardResult& result) const;
  void require_finite_sums(std::span<const RewardSample> samples, RewardResult& result) const;

  std::vector<RewardTerm> terms_;
  OnError on_error_;
};

}  // namespace keel
