#include "keel/reward/answer_rewards.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include "keel/reward/math_verifier.h"

namespace keel {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string final_answer(std::string_view completion) {
  return extract_math_answer(completion).value_or(std::string());
}

/// A prompt's answer as text: a string as it is, a number as JSON writes it.
std::optional<std::string> gold_text(const Prompt& prompt) {
  if (prompt.answer.is_string()) return prompt.answer.get<std::string>();
  if (prompt.answer.is_number()) return prompt.answer.dump();
  return std::nullopt;
}

/// A reward of 1 or 0 by a test of the gold answer and a sample, and how the test reads the sample's answer.
class AnswerReward final : public Reward {
 public:
  using Test = std::function<bool(const std::string& gold, const RewardSample& sample)>;
  using Reader = std::function<FinalAnswer(const std::string& completion)>;
  AnswerReward(Test test, Reader reader) : test_(std::move(test)), reader_(std::move(reader)) {}

  std::optional<FinalAnswer> answer(const RewardSample& sample) const override { return reader_(sample.completion); }

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
  Reader reader_;
};

/// The last number in a text: 1,234.5 and $5 and -3e2 are numbers; 1/2 is not (its 2 is).
std::optional<double> last_number(std::string_view text) {
  size_t end = text.size();
  while (end > 0 && !is_digit(text[end - 1])) --end;
  if (end == 0) return std::nullopt;
  const auto belongs = [&](size_t i) {
    const char c = text[i];
    if (is_digit(c) || c == '.') return true;
    if (c == ',') return i + 1 < text.size() && is_digit(text[i + 1]) && i > 0 && is_digit(text[i - 1]);
    const bool exponent = (c == 'e' || c == 'E') && i > 0 && is_digit(text[i - 1]);
    return exponent ||
           ((c == '-' || c == '+') && i > 1 && (text[i - 1] == 'e' || text[i - 1] == 'E') && is_digit(text[i - 2]));
  };
  size_t begin = end;
  while (begin > 0 && belongs(begin - 1)) --begin;
  std::string number;
  for (const char c : text.substr(begin, end - begin))
    if (c != ',') number += c;
  size_t sign = begin;
  while (sign > 0 && (text[sign - 1] == '$' || text[sign - 1] == ' ')) --sign;
  const bool negative =
      sign > 0 && text[sign - 1] == '-' && (sign == 1 || !(is_digit(text[sign - 2]) || is_letter(text[sign - 2])));
  double value = 0;
  const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || rest != number.data() + number.size()) return std::nullopt;
  return negative ? -value : value;
}

/// The fewest digits that are this number: "12" for 12.0.
std::string shortest(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), number + 0.0).ptr};  // 0 has no sign
}

bool numerically_equal(double tolerance, const std::string& gold, const RewardSample& sample) {
  const std::optional<double> want = last_number(final_answer(gold)),
                              got = last_number(final_answer(sample.completion));
  return want && got && std::abs(*got - *want) <= tolerance * std::max(1.0, std::abs(*want));
}

/// The letter that a short text chooses, upper case, or nothing.
std::optional<char> chosen_letter(std::string_view text) {
  for (const std::string_view wrapper : {"\\textbf{", "\\text{", "\\mathrm{", "\\mathbf{", "**", "(", "["}) {
    text = trimmed(text);
    if (text.starts_with(wrapper)) text.remove_prefix(wrapper.size());
  }
  text = trimmed(text);
  if (text.empty() || !is_letter(text[0])) return std::nullopt;
  if (text.size() > 1 && std::string_view(").:]}*,").find(text[1]) == std::string_view::npos) return std::nullopt;
  return static_cast<char>(text[0] & ~0x20);
}

std::optional<char> gold_letter(const Prompt& prompt, const std::string& gold) {
  if (!prompt.answer.is_number_integer()) {
    const std::optional<char> plain = chosen_letter(gold);
    return plain ? plain : chosen_letter(final_answer(gold));
  }
  const int64_t index = prompt.answer.get<int64_t>();
  if (index < 0 || index > 25) return std::nullopt;
  return static_cast<char>('A' + index);
}

}  // namespace

std::unique_ptr<Reward> math_reward() {
  return std::make_unique<AnswerReward>(
      [](const std::string& gold, const RewardSample& sample) { return verify_math(gold, sample.completion).correct; },
      [](const std::string& completion) { return FinalAnswer{.text = final_answer(completion), .is_math = true}; });
}

std::unique_ptr<Reward> exact_reward(bool ignore_case) {
  const auto form = [ignore_case](std::string_view text) {
    return ignore_case ? lower(trimmed(text)) : std::string(trimmed(text));
  };
  return std::make_unique<AnswerReward>(
      [form](const std::string& gold, const RewardSample& sample) {
        return form(sample.completion) == form(gold) || form(final_answer(sample.completion)) == form(gold);
      },
      [form](const std::string& completion) { return FinalAnswer{.text = form(final_answer(completion))}; });
}

std::unique_ptr<Reward> numeric_reward(double tolerance) {
  return std::make_unique<AnswerReward>(
      [tolerance](const std::string& gold, const RewardSample& sample) {
        return numerically_equal(tolerance, gold, sample);
      },
      [](const std::string& completion) {
        const std::optional<double> number = last_number(final_answer(completion));
        return FinalAnswer{.text = number ? shortest(*number) : ""};
      });
}

std::unique_ptr<Reward> choice_reward() {
  return std::make_unique<AnswerReward>(
      [](const std::string& gold, const RewardSample& sample) {
        const std::optional<char> want = gold_letter(sample.prompt, gold);
        return want && chosen_letter(final_answer(sample.completion)) == want;
      },
      [](const std::string& completion) {
        const std::optional<char> letter = chosen_letter(final_answer(completion));
        return FinalAnswer{.text = letter ? std::string(1, *letter) : ""};
      });
}

}  // namespace keel
