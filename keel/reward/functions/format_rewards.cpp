#include "keel/reward/functions/format_rewards.h"

#include <algorithm>
#include <functional>

#include "keel/core/error.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/regex/regex.h"

namespace keel {
namespace {

/// Applies a function to each sample. It returns std::nullopt if it needs tokens that the sample lacks.
class SampleReward final : public Reward {
 public:
  using Function = std::function<std::optional<double>(const RewardSample&)>;
  explicit SampleReward(Function function) : function_(std::move(function)) {}

  Scores operator()(std::span<const RewardSample> samples) const override {
    Scores scores;
    for (const RewardSample& sample : samples) {
      scores.rewards.push_back(function_(sample));
      if (!scores.rewards.back())
        scores.failures[scores.rewards.size() - 1] =
            "it counts tokens, but the row has none; add \"completion_ids\" to the row";
    }
    return scores;
  }

 private:
  Function function_;
};

std::string_view without_leading_space(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text;
}

bool occurs_once(std::string_view text, const std::string& word) {
  const size_t first = text.find(word);
  return first != std::string_view::npos && text.find(word, first + 1) == std::string_view::npos;
}

bool has_tags(std::string_view text, const std::vector<std::string>& tags) {
  std::string_view rest = text;
  for (const std::string& tag : tags) {
    if (tag == "*") return true;
    const std::string open = "<" + tag + ">", close = "</" + tag + ">";
    if (!occurs_once(text, open) || !occurs_once(text, close)) return false;
    rest = without_leading_space(rest);
    const size_t end = rest.find(close);
    if (!rest.starts_with(open) || end == std::string_view::npos) return false;
    rest.remove_prefix(end + close.size());
  }
  return without_leading_space(rest).empty();
}

bool matches(const text::Regex& regex, const std::string& completion) {
  try {
    return regex.find(text::lossy_utf8(completion)).has_value();
  } catch (const Error&) {  // the match limit
    return false;
  }
}

std::unique_ptr<Reward> length_function(std::function<double(double)> reward_of) {
  return std::make_unique<SampleReward>([reward_of = std::move(reward_of)](const RewardSample& sample) {
    return sample.tokens ? std::optional(reward_of(static_cast<double>(sample.tokens->size()))) : std::nullopt;
  });
}

}  // namespace

std::unique_ptr<Reward> tags_reward(std::vector<std::string> tags) {
  return std::make_unique<SampleReward>(
      [tags = std::move(tags)](const RewardSample& sample) { return has_tags(sample.completion, tags) ? 1 : 0; });
}

std::unique_ptr<Reward> pattern_reward(const std::string& pattern) {
  // \A anchors the match; multi-line mode is off, so that ^ and $ mean the whole text.
  const std::string whole = "(?s-m)\\A(?:" + pattern + ")\\z";
  text::Regex regex;
  try {
    regex = text::Regex::compile_pcre2(whole, "reward.functions");
  } catch (const Error& error) {
    fail(ExitCode::kBadConfiguration, error.what());
  }
  return std::make_unique<SampleReward>(
      [regex](const RewardSample& sample) { return matches(regex, sample.completion) ? 1 : 0; });
}

std::unique_ptr<Reward> stopped_reward() {
  return std::make_unique<SampleReward>([](const RewardSample& sample) { return sample.stopped ? 1 : 0; });
}

std::unique_ptr<Reward> length_reward(double scale) {
  return length_function([=](double length) { return -length / scale; });
}

std::unique_ptr<Reward> overlong_reward(double max_length, double buffer) {
  return length_function(
      [=](double length) { return -std::clamp((length - (max_length - buffer)) / buffer, 0.0, 1.0); });
}

}  // namespace keel
