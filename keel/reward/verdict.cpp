#include "keel/reward/verdict.h"

#include <algorithm>

#include "libs/mathverify/extract.h"

namespace keel {
namespace {

/// The weighted sum without what is there for training alone.
std::optional<double> worth_of(const RewardSum& reward, const Judgement& judgement, size_t place) {
  const std::vector<RewardTerm>& terms = reward.terms();
  const std::optional<double>& total = judgement.totals[place];
  if (!total || std::none_of(terms.begin(), terms.end(), [](const RewardTerm& term) { return term.of_training; }))
    return total;
  std::optional<double> sum;
  for (size_t t = 0; t < terms.size(); ++t)
    if (const std::optional<double>& value = judgement.terms[t][place]; value && !terms[t].of_training)
      sum = sum.value_or(0) + terms[t].weight * *value;
  return sum;
}

Verdict verdict_of(const RewardSum& reward, const RewardSample& sample, const Judgement& judgement, size_t place) {
  std::optional<FinalAnswer> answer;
  std::optional<double> best;  // of what the judges of answers say
  for (size_t t = 0; t < reward.terms().size(); ++t) {
    const RewardTerm& term = reward.terms()[t];
    std::optional<FinalAnswer> read;
    if (!term.applies_to(sample.prompt.source) || !(read = term.reward->answer(sample))) continue;
    if (!answer) answer = std::move(read);
    if (const std::optional<double>& value = judgement.terms[t][place]) best = std::max(best.value_or(*value), *value);
  }
  const std::optional<double> total = worth_of(reward, judgement, place);
  if (!answer)
    return {.reward = total,
            .solved = total >= kSolved,
            .by_reward = true,
            .answer = {.text = extract_math_answer(sample.completion).value_or(""), .is_math = true}};
  return {.reward = best ? total : std::nullopt, .solved = best >= kSolved, .answer = std::move(*answer)};
}

}  // namespace

std::vector<Verdict> verdicts(const RewardSum& reward, std::span<const RewardSample> samples,
                              const Judgement& judgement) {
  std::vector<Verdict> result;
  for (size_t i = 0; i < samples.size(); ++i) result.push_back(verdict_of(reward, samples[i], judgement, i));
  return result;
}

}  // namespace keel
