#include "keel/reward/score.h"

namespace keel {
namespace {

void add_functions(std::vector<ScoreReport::Function>& to, const std::vector<ScoreReport::Function>& more) {
  if (to.empty()) to.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) {
    to[i].name = more[i].name;
    to[i].sum += more[i].sum;
    to[i].count += more[i].count;
  }
}

}  // namespace

void ScoreReport::add(const ScoreReport& other) {
  add_functions(functions, other.functions);
  unscored += other.unscored;
  failures.insert(failures.end(), other.failures.begin(), other.failures.end());
}

std::optional<std::string> ScoreTally::add(const ScoreReport& report, size_t completions) {
  add_functions(functions_, report.functions);
  completions_ += completions;
  const bool is_first = failures_ == 0 && !report.failures.empty();
  failures_ += report.failures.size();
  return is_first ? std::optional(report.failures.front()) : std::nullopt;
}

std::vector<std::string> ScoreTally::warnings() const {
  std::vector<std::string> texts;
  if (failures_ > 0)
    texts.push_back("reward functions failed " + std::to_string(failures_) + " times on " +
                    std::to_string(completions_) + " completions");
  for (const ScoreReport::Function& function : functions_)
    if (function.count == 0)
      texts.push_back("reward \"" + function.name + "\" scored none of " + std::to_string(completions_) +
                      " completions");
  return texts;
}

std::vector<RewardSample> make_reward_samples(std::span<const Rollout> group, std::span<const Prompt> prompts,
                                              const Tokenizer& tokenizer) {
  std::vector<RewardSample> samples;
  for (const Rollout& rollout : group)
    samples.push_back({.prompt = prompts[static_cast<size_t>(rollout.prompt)],
                       .completion = rollout.text,
                       .with_special_tokens = tokenizer.decode(rollout.tokens.ids, /*skip_special=*/false),
                       .tokens = rollout.tokens.ids,
                       .stopped = rollout.finish != Finish::kLength,
                       .id = rollout.id,
                       .policy_version = rollout.policy_version});
  return samples;
}

void GroupScore::set_reward(size_t index, Rollout& rollout) const {
  const std::optional<double>& reward = result.totals.at(index);
  rollout.has_reward = reward.has_value();
  rollout.reward = reward.value_or(0);
  rollout.function_rewards.clear();
  for (size_t t = 0; t < weights.size(); ++t)
    if (const std::optional<double>& value = result.terms[t].at(index))
      rollout.function_rewards.push_back({static_cast<int64_t>(t), weights[t], *value});
}

GroupScore score_group(std::span<const RewardSample> samples, const RewardSum& reward) {
  GroupScore score;
  const RewardResult& result = score.result = reward.score(samples);
  for (const std::optional<double>& total : result.totals) score.report.unscored += total ? 0 : 1;
  for (size_t t = 0; t < result.terms.size(); ++t) {
    ScoreReport::Function& function = score.report.functions.emplace_back();
    function.name = reward.terms()[t].name;
    score.weights.push_back(reward.terms()[t].weight);
    for (const std::optional<double>& value : result.terms[t]) {
      function.sum += value.value_or(0);
      function.count += value ? 1 : 0;
    }
  }
  score.report.failures = result.failures;
  return score;
}

}  // namespace keel
