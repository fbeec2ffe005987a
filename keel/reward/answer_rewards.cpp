#include "keel/reward/answer_rewards.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include "keel/core/foreign_text.h"
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

/// An answer that completions are compared with.
struct Gold {
  std::string text;                // a string as it is, a number as JSON writes it
  std::optional<int64_t> integer;  // where it is one
};

/// Those of a prompt, any of which is right; none where one is neither text nor number.
std::vector<Gold> golds_of(const Json& answer) {
  std::vector<Gold> golds;
  for (const Json& value : answer.is_array() ? answer : Json::array({answer})) {
    if (!value.is_string() && !value.is_number()) return {};
    golds.push_back({.text = value.is_string() ? value.get<std::string>() : value.dump(),
                     .integer = value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt});
  }
  return golds;
}

/// A reward of 1 or 0 by a test of the gold answers and a sample.
class AnswerReward final : public Reward {
 public:
  using Test = std::function<bool(const Gold& gold, const RewardSample& sample)>;
  explicit AnswerReward(Test test) : test_(std::move(test)) {}

  Scores operator()(std::span<const RewardSample> samples) const override {
    Scores scores{.rewards = std::vector<std::optional<double>>(samples.size()), .failures = {}};
    for (size_t i = 0; i < samples.size(); ++i) {
      const std::vector<Gold> golds = golds_of(samples[i].prompt.answer);
      const auto equals = [&](const Gold& gold) { return test_(gold, samples[i]); };
      if (golds.empty())
        scores.failures[i] = objection(samples[i].prompt.answer);
      else
        scores.rewards[i] = std::any_of(golds.begin(), golds.end(), equals) ? 1 : 0;
    }
    return scores;
  }

  std::string objection(const Json& answer) const override {
    if (!golds_of(answer).empty()) return "";
    if (answer.is_null()) return "it has no answer";
    return "its answer is " + printable(answer.dump()) + "; wanted a text, a number, or a list of such";
  }

 private:
  Test test_;
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

bool numerically_equal(double tolerance, const Gold& gold, const RewardSample& sample) {
  const std::optional<double> want = last_number(final_answer(gold.text)),
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

std::optional<char> gold_letter(const Gold& gold) {
  if (!gold.integer) {
    const std::optional<char> plain = chosen_letter(gold.text);
    return plain ? plain : chosen_letter(final_answer(gold.text));
  }
  if (*gold.integer < 0 || *gold.integer > 25) return std::nullopt;
  return static_cast<char>('A' + *gold.integer);
}

}  // namespace

std::unique_ptr<Reward> math_reward() {
  return std::make_unique<AnswerReward>(
      [](const Gold& gold, const RewardSample& sample) { return verify_math(gold.text, sample.completion).correct; });
}

std::unique_ptr<Reward> exact_reward(bool ignore_case) {
  return std::make_unique<AnswerReward>([ignore_case](const Gold& gold, const RewardSample& sample) {
    const auto form = [&](std::string_view text) {
      return ignore_case ? lower(trimmed(text)) : std::string(trimmed(text));
    };
    return form(sample.completion) == form(gold.text) || form(final_answer(sample.completion)) == form(gold.text);
  });
}

std::unique_ptr<Reward> numeric_reward(double tolerance) {
  return std::make_unique<AnswerReward>(
      [tolerance](const Gold& gold, const RewardSample& sample) { return numerically_equal(tolerance, gold, sample); });
}

std::unique_ptr<Reward> choice_reward() {
  return std::make_unique<AnswerReward>([](const Gold& gold, const RewardSample& sample) {
    const std::optional<char> want = gold_letter(gold);
    return want && chosen_letter(final_answer(sample.completion)) == want;
  });
}

}  // namespace keel
