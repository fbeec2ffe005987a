#include "keel/reward/verdict.h"

#include <algorithm>

#include "libs/mathverify/extract.h"

namespace keel {
namespace {

/// The weighted sum without length penalties.
std::optional<double> evaluation_reward(const RewardSum& reward, const RewardResult& result, size_t index) {
  const std::vector<RewardTerm>& terms = reward.terms();
  const std::optional<double>& total = result.totals[index];
  if (!total || std::none_of(terms.begin(), terms.end(), [](const RewardTerm& term) { return term.training_only; }))
    return total;
  std::optional<double> sum;
  for (size_t t = 0; t < terms.size(); ++t)
    if (const std::optional<double>& value = result.terms[t][index]; value && !terms[t].training_only)
      sum = sum.value_or(0) + terms[t].weight * *value;
  return sum;
}

Verdict compute_verdict(const RewardSum& reward, const RewardSample& sample, const RewardResult& result, size_t index) {
  std::optional<FinalAnswer> answer;
  std::optional<double> best;  // of the functions that score final answers
  for (size_t t = 0; t < reward.terms().size(); ++t) {
    const RewardTerm& term = reward.terms()[t];
    std::optional<FinalAnswer> extracted;
    if (!term.applies_to(sample.prompt.source) || !(extracted = term.reward->answer(sample))) continue;
    if (!answer) answer = std::move(extracted);
    if (const std::optional<double>& value = result.terms[t][index]) best = std::max(best.value_or(*value), *value);
  }
  const std::optional<double> total = evaluation_reward(reward, result, index);
  if (!answer)
    return {.reward = total,
            .solved = total >= kSolvedThreshold,
            .by_reward = true,
            .answer = {.text = extract_math_answer(sample.completion).value_or(""), .is_math = true}};
  return {.reward = best ? total : std::nullopt, .solved = best >= kSolvedThreshold, .answer = std::move(*answer)};
}

}  // namespace

std::vector<Verdict> compute_verdicts(const RewardSum& reward, std::span<const RewardSample> samples,
                                      const RewardResult& result) {
  std::vector<Verdict> verdicts;
  for (size_t i = 0; i < samples.size(); ++i) verdicts.push_back(compute_verdict(reward, samples[i], result, i));
  return verdicts;
}

}  // namespace keel
