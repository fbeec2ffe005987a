#include "keel/reward/answer_rewards.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include "keel/reward/answer_reading.h"
#include "keel/reward/math_verifier.h"
#include "keel/text/unicode.h"
#include "keel/text/utf8.h"

namespace keel {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::string final_answer(std::string_view completion) {
  return extract_math_answer(completion).value_or(std::string());
}

/// A prompt's answer as text: a string as it is, a number as JSON writes it.
std::optional<std::string> gold_text(const Prompt& prompt) {
  if (prompt.answer.is_string()) return prompt.answer.get<std::string>();
  if (prompt.answer.is_number()) return prompt.answer.dump();
  return std::nullopt;
}

/// A reward of 1 or 0 by a test of the gold answer and a sample.
class AnswerReward final : public Reward {
 public:
  using Test = std::function<bool(const std::string& gold, const RewardSample& sample)>;
  explicit AnswerReward(Test test) : test_(std::move(test)) {}

  Scores operator()(std::span<const RewardSample> samples) const override {
    Scores scores{.rewards = std::vector<std::optional<double>>(samples.size()), .failures = {}};
    for (size_t i = 0; i < samples.size(); ++i) {
      if (const std::optional<std::string> gold = gold_text(samples[i].prompt))
        scores.rewards[i] = test_(*gold, samples[i]) ? 1 : 0;
      else
        scores.failures[i] = std::string("the prompt's answer is ") + samples[i].prompt.answer.type_name() +
                             "; wanted a text or a number";
    }
    return scores;
  }

 private:
  Test test_;
};

bool numerically_equal(double tolerance, const std::string& gold, const RewardSample& sample) {
  const std::optional<double> want = number_in(final_answer(gold)), got = number_in(final_answer(sample.completion));
  return want && got && std::abs(*got - *want) <= tolerance * std::max(1.0, std::abs(*want));
}

std::optional<char> gold_letter(const Prompt& prompt, const std::string& gold) {
  if (!prompt.answer.is_number_integer()) {
    const std::optional<char> plain = choice_in(gold);
    return plain ? plain : choice_in(final_answer(gold));
  }
  const int64_t index = prompt.answer.get<int64_t>();
  if (index < 0 || index > 25) return std::nullopt;
  return static_cast<char>('A' + index);
}

}  // namespace

std::unique_ptr<Reward> math_reward() {
  return std::make_unique<AnswerReward>(
      [](const std::string& gold, const RewardSample& sample) { return verify_math(gold, sample.completion).correct; });
}

std::unique_ptr<Reward> exact_reward(bool ignore_case) {
  return std::make_unique<AnswerReward>([ignore_case](const std::string& gold, const RewardSample& sample) {
    const auto form = [&](std::string_view answer) {
      return ignore_case ? text::fold_case(text::lossy_utf8(trimmed(answer))) : std::string(trimmed(answer));
    };
    return form(sample.completion) == form(gold) || form(final_answer(sample.completion)) == form(gold);
  });
}

std::unique_ptr<Reward> numeric_reward(double tolerance) {
  return std::make_unique<AnswerReward>([tolerance](const std::string& gold, const RewardSample& sample) {
    return numerically_equal(tolerance, gold, sample);
  });
}

std::unique_ptr<Reward> choice_reward() {
  return std::make_unique<AnswerReward>([](const std::string& gold, const RewardSample& sample) {
    const std::optional<char> want = gold_letter(sample.prompt, gold);
    return want && choice_in(final_answer(sample.completion)) == want;
  });
}

}  // namespace keel
