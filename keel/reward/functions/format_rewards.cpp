#include "keel/reward/functions/format_rewards.h"

#include <algorithm>
#include <functional>

#include "keel/core/error.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/regex/regex.h"

namespace keel {
namespace {

/// A reward that is a function of one sample; nothing where the sample has no tokens and they are needed.
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
            "it counts tokens, and the completion comes without them; give the row \"completion_ids\"";
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

std::unique_ptr<Reward> length_function(std::function<double(double)> worth) {
  return std::make_unique<SampleReward>([worth = std::move(worth)](const RewardSample& sample) {
    return sample.tokens ? std::optional(worth(static_cast<double>(sample.tokens->size()))) : std::nullopt;
  });
}

}  // namespace

std::unique_ptr<Reward> tags_reward(std::vector<std::string> tags) {
  return std::make_unique<SampleReward>(
      [tags = std::move(tags)](const RewardSample& sample) { return has_tags(sample.completion, tags) ? 1 : 0; });
}

std::unique_ptr<Reward> pattern_reward(const std::string& pattern) {
  // \A, so that one place is tried; multi-line mode off, as people who write ^ and $ expect.
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

std::unique_ptr<Reward> overlong_reward(double longest, double buffer) {
  return length_function([=](double length) { return -std::clamp((length - (longest - buffer)) / buffer, 0.0, 1.0); });
}

}  // namespace keel
