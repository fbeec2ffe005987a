#include "keel/reward/reward_sum.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "keel/core/error.h"
#include "keel/core/untrusted_text.h"

namespace keel {
namespace {

std::string join_sources(const std::set<std::string>& sources) {
  constexpr size_t kMaxShown = 8;
  std::string text;
  size_t count = 0;
  for (const std::string& source : sources)
    if (count++ < kMaxShown) text += (text.empty() ? "" : ", ") + printable(source);
  return count > kMaxShown ? text + " and " + std::to_string(count - kMaxShown) + " more" : text;
}

/// `subject` is what failed, such as: reward "math"
std::string failure_message(const std::string& subject, const RewardSample& sample, const std::string& why) {
  std::string text = subject + " failed on rollout ";
  text += std::to_string(sample.id) + " of prompt " + std::to_string(sample.prompt.id);
  if (!sample.prompt.source.empty()) text += " (" + sample.prompt.source + ")";
  return text + ", " + printable(sample.completion) + ": " + why;
}

}  // namespace

bool RewardTerm::applies_to(const std::string& source) const {
  return sources.empty() || std::find(sources.begin(), sources.end(), source) != sources.end();
}

Scores RewardSum::score_term(const RewardTerm& term, std::span<const RewardSample> samples,
                             RewardResult& result) const {
  Scores scores = (*term.reward)(samples);
  if (scores.rewards.size() != samples.size())
    fail(ExitCode::kInternal, "reward \"", term.name, "\" gave ", scores.rewards.size(), " rewards for ",
         samples.size(), " completions");
  for (size_t i = 0; i < samples.size(); ++i) {
    std::optional<double>& reward = scores.rewards[i];
    if (reward && !std::isfinite(*reward))
      scores.failures.emplace(i, "the reward is " + std::to_string(*reward) + "; expected a finite number");
    if (const auto note = scores.notes.find(i); note != scores.notes.end())
      result.notes.push_back(term.name + ": " + note->second);
    const auto failure = scores.failures.find(i);
    if (failure == scores.failures.end()) continue;
    reward = substitute_reward(failure_message("reward \"" + term.name + "\"", samples[i], failure->second), result);
  }
  return scores;
}

/// Returns the reward to use after a failure (reward.on_error), or throws.
std::optional<double> RewardSum::substitute_reward(const std::string& failure, RewardResult& result) const {
  if (on_error_ == OnError::kStop)
    fail(ExitCode::kRewardProgramFailed, failure,
         ". Fix the function, or set reward.on_error to zero (reward 0) or skip (left out)");
  result.failures.push_back(failure);
  return on_error_ == OnError::kZero ? std::optional<double>(0) : std::nullopt;
}

void RewardSum::require_finite_sums(std::span<const RewardSample> samples, RewardResult& result) const {
  constexpr double kMaxReward = 1e18;  // squared advantages and group sums stay finite in float32
  for (size_t i = 0; i < samples.size(); ++i) {
    std::optional<double>& total = result.totals[i];
    if (!total || std::abs(*total) <= kMaxReward) continue;
    std::ostringstream why;
    why << "it is " << *total << " (";
    const char* separator = "";
    for (size_t t = 0; t < terms_.size(); ++t) {
      const std::optional<double>& reward = result.terms[t][i];
      if (!reward) continue;
      why << separator << terms_[t].name << " gave " << *reward << " x " << terms_[t].weight;
      separator = ", ";
    }
    why << "); expected a finite number of at most " << kMaxReward;
    total = substitute_reward(failure_message("the sum of the rewards", samples[i], why.str()), result);
  }
}

bool RewardSum::is_binary() const {
  std::set<std::string> covered;
  const auto scorers =
      std::count_if(terms_.begin(), terms_.end(), [](const auto& term) { return !term.training_only; });
  for (const RewardTerm& term : terms_) {
    if (term.training_only) continue;
    if (!term.reward->is_binary() || term.weight != 1) return false;
    if (term.sources.empty() && scorers > 1) return false;
    for (const std::string& source : std::set(term.sources.begin(), term.sources.end()))
      if (!covered.insert(source).second) return false;
  }
  return scorers > 0;
}

std::string RewardSum::answer_error(const Json& answer, const std::string& source) const {
  for (const RewardTerm& term : terms_) {
    const std::string why = term.applies_to(source) ? term.reward->answer_error(answer) : "";
    if (!why.empty()) return "the reward \"" + term.name + "\" cannot score this row: " + why;
  }
  // If several functions score the answer, one that can give 1 is enough.
  std::string reason;
  for (const RewardTerm& term : terms_) {
    if (!term.reward->is_binary() || !term.applies_to(source)) continue;
    const std::string why = term.reward->unsolvable_reason(answer);
    if (why.empty()) return "";
    if (reason.empty()) reason = "the reward \"" + term.name + "\" could never find a completion correct: " + why;
  }
  return reason;
}

std::vector<std::string> RewardSum::source_warnings(const std::set<std::string>& sources) const {
  std::vector<std::string> warnings;
  std::set<std::string> unscored = sources;
  for (const RewardTerm& term : terms_) {
    const auto applies = [&](const std::string& source) { return term.applies_to(source); };
    if (std::none_of(sources.begin(), sources.end(), applies))
      warnings.push_back("reward \"" + term.name +
                         "\" scores no row: no row has the source after its @; the sources are " +
                         join_sources(sources));
    std::erase_if(unscored, applies);
  }
  if (warnings.size() == terms_.size())
    fail(ExitCode::kBadConfiguration, "reward.functions: no function scores any row: ", warnings.front(),
         ". Fix the sources after the @");
  if (!unscored.empty())
    warnings.push_back("no reward function scores the rows from " + join_sources(unscored) +
                       "; they are not trained on");
  return warnings;
}

RewardResult RewardSum::score(std::span<const RewardSample> samples) const {
  RewardResult result{.totals = std::vector<std::optional<double>>(samples.size()), .terms = {}, .failures = {}};
  for (const RewardTerm& term : terms_) {
    std::vector<std::optional<double>>& rewards = result.terms.emplace_back(samples.size());
    std::vector<RewardSample> applicable;
    std::vector<size_t> indices;
    for (size_t i = 0; i < samples.size(); ++i) {
      if (!term.applies_to(samples[i].prompt.source)) continue;
      applicable.push_back(samples[i]);
      indices.push_back(i);
    }
    if (applicable.empty()) continue;
    const Scores scores = score_term(term, applicable, result);
    for (size_t i = 0; i < indices.size(); ++i) {
      const std::optional<double>& reward = rewards[indices[i]] = scores.rewards[i];
      if (reward) result.totals[indices[i]] = result.totals[indices[i]].value_or(0) + term.weight * *reward;
    }
  }
  require_finite_sums(samples, result);
  return result;
}

}  // namespace keel
