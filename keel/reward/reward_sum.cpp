#include "keel/reward/reward_sum.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "keel/core/error.h"
#include "keel/core/foreign_text.h"

namespace keel {
namespace {

std::string list_of(const std::set<std::string>& sources) {
  constexpr size_t kShown = 8;
  std::string text;
  size_t count = 0;
  for (const std::string& source : sources)
    if (count++ < kShown) text += (text.empty() ? "" : ", ") + printable(source);
  return count > kShown ? text + " and " + std::to_string(count - kShown) + " more" : text;
}

/// `who` is what failed: "reward "math"".
std::string complaint(const std::string& who, const RewardSample& sample, const std::string& why) {
  std::string text = who + " failed on completion ";
  text += std::to_string(sample.id) + " of prompt " + std::to_string(sample.prompt.id);
  if (!sample.prompt.source.empty()) text += " (" + sample.prompt.source + ")";
  return text + ", " + printable(sample.completion) + ": " + why;
}

}  // namespace

bool RewardTerm::applies_to(const std::string& source) const {
  return sources.empty() || std::find(sources.begin(), sources.end(), source) != sources.end();
}

Scores RewardSum::ask(const RewardTerm& term, std::span<const RewardSample> samples, RewardResult& result) const {
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
    reward = worth_after(complaint("reward \"" + term.name + "\"", samples[i], failure->second), result);
  }
  return scores;
}

/// What stands in for a number that could not be had, where that does not stop the run.
std::optional<double> RewardSum::worth_after(const std::string& failure, RewardResult& result) const {
  if (on_error_ == OnError::kStop)
    fail(ExitCode::kRewardProgramFailed, failure,
         ". Mend the function, or let the run go on with reward.on_error: zero (worth 0) or skip (left out)");
  result.failures.push_back(failure);
  return on_error_ == OnError::kZero ? std::optional<double>(0) : std::nullopt;
}

void RewardSum::require_finite_sums(std::span<const RewardSample> samples, RewardResult& result) const {
  constexpr double kLargest = 1e18;  // squares of advantages, and sums over groups, stay finite in 32 bits
  for (size_t i = 0; i < samples.size(); ++i) {
    std::optional<double>& total = result.totals[i];
    if (!total || std::abs(*total) <= kLargest) continue;
    std::ostringstream why;
    why << "it is " << *total << " (";
    const char* separator = "";
    for (size_t t = 0; t < terms_.size(); ++t) {
      const std::optional<double>& reward = result.terms[t][i];
      if (!reward) continue;
      why << separator << terms_[t].name << " gave " << *reward << " x " << terms_[t].weight;
      separator = ", ";
    }
    why << "); expected a finite number of at most " << kLargest;
    total = worth_after(complaint("the sum of the rewards", samples[i], why.str()), result);
  }
}

bool RewardSum::is_binary() const {
  std::set<std::string> taken;
  const auto judges = std::count_if(terms_.begin(), terms_.end(), [](const auto& term) { return !term.training_only; });
  for (const RewardTerm& term : terms_) {
    if (term.training_only) continue;
    if (!term.reward->is_binary() || term.weight != 1) return false;
    if (term.sources.empty() && judges > 1) return false;
    for (const std::string& source : std::set(term.sources.begin(), term.sources.end()))
      if (!taken.insert(source).second) return false;
  }
  return judges > 0;
}

std::string RewardSum::answer_error(const Json& answer, const std::string& source) const {
  for (const RewardTerm& term : terms_) {
    const std::string why = term.applies_to(source) ? term.reward->answer_error(answer) : "";
    if (!why.empty()) return "the reward \"" + term.name + "\" cannot judge this row: " + why;
  }
  // Of several judges of answers one that could find some completion right is enough.
  std::string never;
  for (const RewardTerm& term : terms_) {
    if (!term.reward->is_binary() || !term.applies_to(source)) continue;
    const std::string why = term.reward->unsolvable_reason(answer);
    if (why.empty()) return "";
    if (never.empty()) never = "by the reward \"" + term.name + "\" no completion of this row could be right: " + why;
  }
  return never;
}

std::vector<std::string> RewardSum::source_warnings(const std::set<std::string>& sources) const {
  std::vector<std::string> warnings;
  std::set<std::string> unscored = sources;
  for (const RewardTerm& term : terms_) {
    const auto judged = [&](const std::string& source) { return term.applies_to(source); };
    if (std::none_of(sources.begin(), sources.end(), judged))
      warnings.push_back("reward \"" + term.name + "\" judges nothing: no row is from there; the rows are from " +
                         list_of(sources));
    std::erase_if(unscored, judged);
  }
  if (warnings.size() == terms_.size())
    fail(ExitCode::kBadConfiguration, "reward.functions: no function judges any row: ", warnings.front(),
         ". Correct what stands behind the @");
  if (!unscored.empty())
    warnings.push_back("no reward function judges the rows from " + list_of(unscored) +
                       ": nothing is learned from them");
  return warnings;
}

RewardResult RewardSum::score(std::span<const RewardSample> samples) const {
  RewardResult result{.totals = std::vector<std::optional<double>>(samples.size()), .terms = {}, .failures = {}};
  for (const RewardTerm& term : terms_) {
    std::vector<std::optional<double>>& rewards = result.terms.emplace_back(samples.size());
    std::vector<RewardSample> mine;
    std::vector<size_t> places;
    for (size_t i = 0; i < samples.size(); ++i) {
      if (!term.applies_to(samples[i].prompt.source)) continue;
      mine.push_back(samples[i]);
      places.push_back(i);
    }
    if (mine.empty()) continue;
    const Scores scores = ask(term, mine, result);
    for (size_t i = 0; i < places.size(); ++i) {
      const std::optional<double>& reward = rewards[places[i]] = scores.rewards[i];
      if (reward) result.totals[places[i]] = result.totals[places[i]].value_or(0) + term.weight * *reward;
    }
  }
  require_finite_sums(samples, result);
  return result;
}

}  // namespace keel
