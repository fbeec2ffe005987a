#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "keel/reward/functions/reward.h"

namespace keel {

/// What happens to a sample that a function should have judged and could not.
enum class OnError { kStop, kZero, kSkip };

/// One function of a weighted sum.
struct RewardTerm {
  std::string name;
  double weight = 1;
  std::vector<std::string> sources;  // only prompts from these; none: all
  std::unique_ptr<Reward> reward;
  bool training_only = false;  // a penalty that shapes what is learned and judges nothing: evaluations leave it out

  bool applies_to(const std::string& source) const;
};

/// What a weighted sum said about a batch.
struct RewardResult {
  std::vector<std::optional<double>> totals;              // nothing: no function applied
  std::vector<std::vector<std::optional<double>>> terms;  // by function, then by sample; before the weights
  std::vector<std::string> failures;                      // one sentence for each
  std::vector<std::string> notes = {};                    // what functions have to say about their rewards
};

/// The sum over the functions that apply to a sample, each times its weight.
class RewardSum {
 public:
  RewardSum(std::vector<RewardTerm> terms, OnError on_error) : terms_(std::move(terms)), on_error_(on_error) {}

  /// With OnError::kStop a failure is an Error (kRewardProgramFailed) that names function and sample; with kZero that
  /// function's reward is 0; with kSkip the function is left out for that sample. A number that is not finite is a
  /// failure, and so is a sum that is not, or is above 1e18.
  RewardResult score(std::span<const RewardSample> samples) const;

  /// Why a function that applies to prompts from this source cannot judge by this answer; empty: all can. To be asked
  /// before anything is sampled.
  std::string answer_error(const Json& answer, const std::string& source) const;

  /// Sentences about functions that are for none of these sources, which are all there are, and about sources that no
  /// function is for. An Error (kBadConfiguration) where no function is for any.
  std::vector<std::string> source_warnings(const std::set<std::string>& sources) const;

  /// Whether every sum is 1 for a right answer or 0 for a wrong one, so that a mean of them is an accuracy: no prompt
  /// has more than one function, and each is a judge of answers with weight 1. Penalties of training are left out.
  bool is_binary() const;

  const std::vector<RewardTerm>& terms() const { return terms_; }

 private:
  Scores ask(const RewardTerm& term, std::span<const RewardSample> samples, RewardResult& result) const;
  std::optional<double> worth_after(const std::string& failure, RewardResult& result) const;
  void require_finite_sums(std::span<const RewardSample> samples, RewardResult& result) const;

  std::vector<RewardTerm> terms_;
  OnError on_error_;
};

}  // namespace keel
