#include "keel/reward/functions/answer_rewards.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include "keel/core/foreign_text.h"
#include "keel/core/json_reader.h"
#include "keel/core/strings.h"
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

/// An answer that completions are compared with.
struct Gold {
  std::string text;                // a string as it is, a number as JSON writes it
  std::optional<int64_t> integer;  // where it is one
};

bool is_blank(const Json& value) { return value.is_string() && trimmed(value.get_ref<const std::string&>()).empty(); }

/// Those of a prompt, any of which is right; none where one is neither text nor number, or a text of nothing.
std::vector<Gold> golds_of(const Json& answer) {
  std::vector<Gold> golds;
  for (const Json& value : answer.is_array() ? answer : Json::array({answer})) {
    if ((!value.is_string() && !value.is_number()) || is_blank(value)) return {};
    golds.push_back({.text = value.is_string() ? value.get<std::string>() : value.dump(),
                     .integer = value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt});
  }
  return golds;
}

/// Tests of a program as texts of verl's data have them, {"inputs": [...], "outputs": [...]} or assertions: no
/// completion says the same as these.
bool is_tests_of_program(std::string_view text) {
  const auto is_assertion = [](std::string_view line) { return trimmed(line).starts_with("assert "); };
  text = trimmed(text);
  if (is_assertion(text)) return true;
  if (!text.starts_with('{') && !text.starts_with('[')) return false;
  const Json read = try_parse_json(text, {.depth = kDataDepth}).value_or(Json());
  if (read.is_object()) return !read.empty();
  return read.is_array() && std::any_of(read.begin(), read.end(), [&](const Json& item) {
           return item.is_string() && is_assertion(item.get_ref<const std::string&>());
         });
}

enum class Compares { kMeanings, kTexts };

/// Which gold answers a test can ever find right; of others a run would learn nothing, whatever is written.
struct Usable {
  std::function<bool(const Gold& gold)> test = [](const Gold&) { return true; };
  std::string what_else;  // said of an answer that the test refuses
};

/// A reward of 1 or 0 by a test of the gold answers and a sample, and how the test reads the sample's answer.
class AnswerReward final : public Reward {
 public:
  using Test = std::function<bool(const Gold& gold, const RewardSample& sample)>;
  using Reader = std::function<FinalAnswer(const std::string& completion)>;
  AnswerReward(Test test, Reader reader, Usable usable = {}, Compares compares = Compares::kMeanings)
      : test_(std::move(test)), reader_(std::move(reader)), usable_(std::move(usable)), compares_(compares) {}

  std::optional<FinalAnswer> answer(const RewardSample& sample) const override { return reader_(sample.completion); }
  bool is_binary() const override { return true; }

  Scores operator()(std::span<const RewardSample> samples) const override {
    Scores scores{.rewards = std::vector<std::optional<double>>(samples.size()), .failures = {}};
    for (size_t i = 0; i < samples.size(); ++i) {
      const std::vector<Gold> golds = golds_of(samples[i].prompt.answer);
      const auto equals = [&](const Gold& gold) { return test_(gold, samples[i]); };
      if (const std::string why = answer_error(samples[i].prompt.answer); !why.empty())
        scores.failures[i] = why;
      else
        scores.rewards[i] = std::any_of(golds.begin(), golds.end(), equals) ? 1 : 0;
    }
    return scores;
  }

  std::string answer_error(const Json& answer) const override {
    const std::vector<Gold> golds = golds_of(answer);
    const auto is_program = [](const Gold& gold) { return is_tests_of_program(gold.text); };
    if (compares_ == Compares::kMeanings && std::any_of(golds.begin(), golds.end(), is_program))
      return "its answer is tests of a program, which reward.functions: [code] runs";
    if (!golds.empty()) return "";
    if (answer.is_null()) return "it has no answer";
    if (is_blank(answer)) return "its answer is empty";
    return "its answer is " + printable(answer.dump()) + "; expected a text, a number, or a list of such";
  }

  std::string unsolvable_reason(const Json& answer) const override {
    const std::vector<Gold> golds = golds_of(answer);
    if (golds.empty() || std::any_of(golds.begin(), golds.end(), usable_.test)) return "";
    return "its answer is " + printable(answer.is_string() ? golds[0].text : answer.dump()) + usable_.what_else;
  }

 private:
  Test test_;
  Reader reader_;
  Usable usable_;
  Compares compares_;
};

/// The fewest digits that are this number: "12" for 12.0.
std::string shortest(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), number + 0.0).ptr};  // 0 has no sign
}

std::optional<double> number_of(std::string_view text) { return extract_number(final_answer(text)); }

bool numerically_equal(double tolerance, const Gold& gold, const RewardSample& sample) {
  const std::optional<double> want = number_of(gold.text), got = number_of(sample.completion);
  return want && got && std::abs(*got - *want) <= tolerance * std::max(1.0, std::abs(*want));
}

/// A text of digits names no choice: some data sets count from 0 and some from 1.
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
  const auto form = [ignore_case](std::string_view answer) {
    return ignore_case ? text::fold_case(text::lossy_utf8(trimmed(answer))) : std::string(trimmed(answer));
  };
  return std::make_unique<AnswerReward>(
      [form](const Gold& gold, const RewardSample& sample) {
        return form(sample.completion) == form(gold.text) || form(final_answer(sample.completion)) == form(gold.text);
      },
      [form](const std::string& completion) { return FinalAnswer{.text = form(final_answer(completion))}; }, Usable{},
      Compares::kTexts);
}

std::unique_ptr<Reward> numeric_reward(double tolerance) {
  return std::make_unique<AnswerReward>(
      [tolerance](const Gold& gold, const RewardSample& sample) { return numerically_equal(tolerance, gold, sample); },
      [](const std::string& completion) {
        const std::optional<double> number = number_of(completion);
        return FinalAnswer{.text = number ? shortest(*number) : ""};
      },
      Usable{[](const Gold& gold) { return number_of(gold.text).has_value(); }, ", which is no number; expected one"});
}

std::unique_ptr<Reward> choice_reward() {
  return std::make_unique<AnswerReward>(
      [](const Gold& gold, const RewardSample& sample) {
        const std::optional<char> want = gold_letter(gold);
        return want && extract_choice(final_answer(sample.completion)) == want;
      },
      [](const std::string& completion) {
        const std::optional<char> letter = extract_choice(final_answer(completion));
        return FinalAnswer{.text = letter ? std::string(1, *letter) : ""};
      },
      Usable{[](const Gold& gold) { return gold_letter(gold).has_value(); },
             ", which names no choice; expected a letter, or an integer (no text) from 0 to 25, counted from A = 0"});
}

}  // namespace keel
