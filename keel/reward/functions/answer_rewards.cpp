#include "keel/reward/functions/answer_rewards.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include "keel/core/json_reader.h"
#include "keel/core/strings.h"
#include "keel/core/untrusted_text.h"
#include "libs/hftext/characters/unicode.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/mathverify/extract.h"
#include "libs/mathverify/extract_choice.h"
#include "libs/mathverify/extract_number.h"
#include "libs/mathverify/verifier.h"

namespace keel {
namespace {

std::string final_answer(std::string_view completion) {
  return extract_math_answer(completion).value_or(std::string());
}

/// A correct answer that completions are compared with.
struct Gold {
  std::string text;                // the string, or the JSON form of a number
  std::optional<int64_t> integer;  // set if it is one
};

bool is_blank(const Json& value) { return value.is_string() && trimmed(value.get_ref<const std::string&>()).empty(); }

/// Returns the correct answers of a prompt; empty if any of them is blank, or neither text nor number.
std::vector<Gold> read_golds(const Json& answer) {
  std::vector<Gold> golds;
  for (const Json& value : answer.is_array() ? answer : Json::array({answer})) {
    if ((!value.is_string() && !value.is_number()) || is_blank(value)) return {};
    golds.push_back({.text = value.is_string() ? value.get<std::string>() : value.dump(),
                     .integer = value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt});
  }
  return golds;
}

/// Returns whether the text is program tests in the verl format: {"inputs": [...], "outputs": [...]} or assertions.
bool is_program_tests(std::string_view text) {
  const auto is_assertion = [](std::string_view line) { return trimmed(line).starts_with("assert "); };
  text = trimmed(text);
  if (is_assertion(text)) return true;
  if (!text.starts_with('{') && !text.starts_with('[')) return false;
  const Json value = try_parse_json(text, {.depth = kDataDepth}).value_or(Json());
  if (value.is_object()) return !value.empty();
  return value.is_array() && std::any_of(value.begin(), value.end(), [&](const Json& item) {
           return item.is_string() && is_assertion(item.get_ref<const std::string&>());
         });
}

enum class CompareBy { kValue, kText };

/// Whether a completion can match a gold answer at all. Rows that fail are rejected.
struct MatchableAnswer {
  std::function<bool(const Gold& gold)> test = [](const Gold&) { return true; };
  std::string problem;  // appended to the answer in the error message
};

/// Gives 1 if `test` holds for any gold answer, else 0. `extractor` returns the sample's final answer.
class AnswerReward final : public Reward {
 public:
  using Test = std::function<bool(const Gold& gold, const RewardSample& sample)>;
  using Extractor = std::function<FinalAnswer(const std::string& completion)>;
  AnswerReward(Test test, Extractor extractor, MatchableAnswer matchable = {}, CompareBy compare_by = CompareBy::kValue)
      : test_(std::move(test)),
        extractor_(std::move(extractor)),
        matchable_(std::move(matchable)),
        compare_by_(compare_by) {}

  std::optional<FinalAnswer> answer(const RewardSample& sample) const override { return extractor_(sample.completion); }
  bool is_binary() const override { return true; }

  Scores operator()(std::span<const RewardSample> samples) const override {
    Scores scores{.rewards = std::vector<std::optional<double>>(samples.size()), .failures = {}};
    for (size_t i = 0; i < samples.size(); ++i) {
      const std::vector<Gold> golds = read_golds(samples[i].prompt.answer);
      const auto equals = [&](const Gold& gold) { return test_(gold, samples[i]); };
      if (const std::string why = answer_error(samples[i].prompt.answer); !why.empty())
        scores.failures[i] = why;
      else
        scores.rewards[i] = std::any_of(golds.begin(), golds.end(), equals) ? 1 : 0;
    }
    return scores;
  }

  std::string answer_error(const Json& answer) const override {
    const std::vector<Gold> golds = read_golds(answer);
    const auto is_program = [](const Gold& gold) { return is_program_tests(gold.text); };
    if (compare_by_ == CompareBy::kValue && std::any_of(golds.begin(), golds.end(), is_program))
      return "its answer is program tests; use reward.functions: [code]";
    if (!golds.empty()) return "";
    if (answer.is_null()) return "it has no answer";
    if (is_blank(answer)) return "its answer is empty";
    return "its answer is " + printable(answer.dump()) + "; expected a text, a number, or a list of these";
  }

  std::string unsolvable_reason(const Json& answer) const override {
    const std::vector<Gold> golds = read_golds(answer);
    if (golds.empty() || std::any_of(golds.begin(), golds.end(), matchable_.test)) return "";
    return "its answer is " + printable(answer.is_string() ? golds[0].text : answer.dump()) + matchable_.problem;
  }

 private:
  Test test_;
  Extractor extractor_;
  MatchableAnswer matchable_;
  CompareBy compare_by_;
};

/// The shortest decimal form: "12" for 12.0.
std::string shortest_decimal(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), number + 0.0).ptr};  // 0 has no sign
}

std::optional<double> final_number(std::string_view text) { return extract_number(final_answer(text)); }

bool numerically_equal(double tolerance, const Gold& gold, const RewardSample& sample) {
  const std::optional<double> expected = final_number(gold.text), got = final_number(sample.completion);
  return expected && got && std::abs(*got - *expected) <= tolerance * std::max(1.0, std::abs(*expected));
}

/// Digits in a text are not a choice, because some data sets count from 0 and some from 1.
std::optional<char> gold_letter(const Gold& gold) {
  if (gold.integer) {
    if (*gold.integer < 0 || *gold.integer > 25) return std::nullopt;
    return static_cast<char>('A' + *gold.integer);
  }
  const std::optional<char> plain = extract_choice(gold.text);
  return plain ? plain : extract_choice(final_answer(gold.text));
}

}  // namespace

std::unique_ptr<Reward> math_reward() {
  return std::make_unique<AnswerReward>(
      [](const Gold& gold, const RewardSample& sample) { return verify_math(gold.text, sample.completion).correct; },
      [](const std::string& completion) { return FinalAnswer{.text = final_answer(completion), .is_math = true}; });
}

std::unique_ptr<Reward> exact_reward(bool ignore_case) {
  const auto normalize = [ignore_case](std::string_view answer) {
    return ignore_case ? text::fold_case(text::lossy_utf8(trimmed(answer))) : std::string(trimmed(answer));
  };
  return std::make_unique<AnswerReward>(
      [normalize](const Gold& gold, const RewardSample& sample) {
        return normalize(sample.completion) == normalize(gold.text) ||
               normalize(final_answer(sample.completion)) == normalize(gold.text);
      },
      [normalize](const std::string& completion) { return FinalAnswer{.text = normalize(final_answer(completion))}; },
      MatchableAnswer{}, CompareBy::kText);
}

std::unique_ptr<Reward> numeric_reward(double tolerance) {
  return std::make_unique<AnswerReward>(
      [tolerance](const Gold& gold, const RewardSample& sample) { return numerically_equal(tolerance, gold, sample); },
      [](const std::string& completion) {
        const std::optional<double> number = final_number(completion);
        return FinalAnswer{.text = number ? shortest_decimal(*number) : ""};
      },
      MatchableAnswer{[](const Gold& gold) { return final_number(gold.text).has_value(); }, "; expected a number"});
}

std::unique_ptr<Reward> choice_reward() {
  return std::make_unique<AnswerReward>(
      [](const Gold& gold, const RewardSample& sample) {
        const std::optional<char> expected = gold_letter(gold);
        return expected && extract_choice(final_answer(sample.completion)) == expected;
      },
      [](const std::string& completion) {
        const std::optional<char> letter = extract_choice(final_answer(completion));
        return FinalAnswer{.text = letter ? std::string(1, *letter) : ""};
      },
      MatchableAnswer{[](const Gold& gold) { return gold_letter(gold).has_value(); },
                      "; expected a letter, or an integer from 0 (A) to 25 that is not a string"});
}

}  // namespace keel
