#include "keel/reward/reward.h"

#include <algorithm>
#include <cmath>

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

std::string complaint(const RewardTerm& term, const RewardSample& sample, const std::string& why) {
  std::string text = "reward \"" + term.name + "\" failed on completion ";
  text += std::to_string(sample.id) + " of prompt " + std::to_string(sample.prompt.id);
  if (!sample.prompt.source.empty()) text += " (" + sample.prompt.source + ")";
  return text + ", " + printable(sample.completion) + ": " + why;
}

}  // namespace

std::optional<FinalAnswer> Reward::answer(const RewardSample&) const { return std::nullopt; }

bool RewardTerm::applies_to(const std::string& source) const {
  return sources.empty() || std::find(sources.begin(), sources.end(), source) != sources.end();
}

Scores RewardSum::ask(const RewardTerm& term, std::span<const RewardSample> samples, Judgement& judgement) const {
  Scores scores = (*term.reward)(samples);
  if (scores.rewards.size() != samples.size())
    fail(ExitCode::kInternal, "reward \"", term.name, "\" gave ", scores.rewards.size(), " rewards for ",
         samples.size(), " completions");
  for (size_t i = 0; i < samples.size(); ++i) {
    std::optional<double>& reward = scores.rewards[i];
    if (reward && !std::isfinite(*reward))
      scores.failures.emplace(i, "the reward is " + std::to_string(*reward) + "; wanted a finite number");
    const auto failure = scores.failures.find(i);
    if (failure == scores.failures.end()) continue;
    const std::string what = complaint(term, samples[i], failure->second);
    if (on_error_ == OnError::kStop)
      fail(ExitCode::kRewardProgramFailed, what,
           ". Mend the function, or let the run go on with reward.on_error: zero (worth 0) or skip (left out)");
    judgement.failures.push_back(what);
    reward = on_error_ == OnError::kZero ? std::optional<double>(0) : std::nullopt;
  }
  return scores;
}

std::string Reward::objection(const Json&) const { return ""; }

std::string RewardSum::objection(const Json& answer, const std::string& source) const {
  for (const RewardTerm& term : terms_) {
    const std::string why = term.applies_to(source) ? term.reward->objection(answer) : "";
    if (!why.empty()) return "the reward \"" + term.name + "\" cannot judge this row: " + why;
  }
  return "";
}

std::vector<std::string> RewardSum::source_warnings(const std::set<std::string>& sources) const {
  std::vector<std::string> warnings;
  std::set<std::string> unjudged = sources;
  for (const RewardTerm& term : terms_) {
    const auto judged = [&](const std::string& source) { return term.applies_to(source); };
    if (std::none_of(sources.begin(), sources.end(), judged))
      warnings.push_back("reward \"" + term.name + "\" judges nothing: no row is from there; the rows are from " +
                         list_of(sources));
    std::erase_if(unjudged, judged);
  }
  if (warnings.size() == terms_.size())
    fail(ExitCode::kBadConfiguration, "reward.functions: no function judges any row: ", warnings.front(),
         ". Correct what stands behind the @");
  if (!unjudged.empty())
    warnings.push_back("no reward function judges the rows from " + list_of(unjudged) +
                       ": all their completions are worth the same");
  return warnings;
}

Judgement RewardSum::judge(std::span<const RewardSample> samples) const {
  Judgement judgement{.totals = std::vector<std::optional<double>>(samples.size()), .terms = {}, .failures = {}};
  for (const RewardTerm& term : terms_) {
    std::vector<std::optional<double>>& rewards = judgement.terms.emplace_back(samples.size());
    std::vector<RewardSample> mine;
    std::vector<size_t> places;
    for (size_t i = 0; i < samples.size(); ++i) {
      if (!term.applies_to(samples[i].prompt.source)) continue;
      mine.push_back(samples[i]);
      places.push_back(i);
    }
    if (mine.empty()) continue;
    const Scores scores = ask(term, mine, judgement);
    for (size_t i = 0; i < places.size(); ++i) {
      const std::optional<double>& reward = rewards[places[i]] = scores.rewards[i];
      if (reward) judgement.totals[places[i]] = judgement.totals[places[i]].value_or(0) + term.weight * *reward;
    }
  }
  return judgement;
}

}  // namespace keel
