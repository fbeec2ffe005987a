#include "libs/mathverify/verifier.h"

#include "libs/mathverify/algebra/algebra.h"
#include "libs/mathverify/compare/modular.h"
#include "libs/mathverify/compare/renaming.h"
#include "libs/mathverify/compare/value.h"
#include "libs/mathverify/extract.h"
#include "libs/mathverify/parse/plain_text.h"
#include "libs/mathverify/parse/words.h"

namespace keel {
namespace {

using namespace math;

/// One side of the comparison: text, tree and, if it can be evaluated, value.
struct ParsedAnswer {
  std::string text{}, normalized_text{};
  NodePointer node{};
  std::optional<Value> value{};
};

std::string truncated(const std::string& text) {
  constexpr size_t kMaxDisplayed = 1000;
  if (text.size() <= kMaxDisplayed) return text;
  std::string beginning(text, 0, kMaxDisplayed);
  return beginning.append("...");
}

/// Compares a gold with an answer; both share one Algebra.
class AnswerComparer {
 public:
  explicit AnswerComparer(uint64_t max_steps)
      : max_steps_(max_steps), budget_(max_steps), algebra_(budget_), evaluator_(algebra_) {}

  ParsedAnswer parse(std::string text) {
    ParsedAnswer side{.text = std::move(text)};
    budget_.record(side.text.size());
    side.normalized_text = side.text;  // fallback for unsupported scripts and long texts
    try {
      std::vector<Token> tokens = replace_phrases(parse_number_words(tokenize(to_ascii(side.text))));
      budget_.record(300 * tokens.size());
      side.normalized_text = normalize_text(tokens);
      side.node = parse_phrase(side.normalized_text);
      if (!side.node) side.node = parse_reals_except(tokens);
      if (!side.node) side.node = parse_math(std::move(tokens));
      side.value = evaluator_.evaluate(*side.node);
    } catch (const Undecided&) {
    }
    return side;
  }

  bool equal(const ParsedAnswer& gold, const ParsedAnswer& answer) {
    if (gold.normalized_text.empty() || answer.normalized_text.empty()) return false;
    if (gold.normalized_text == answer.normalized_text) return true;
    if (is_score(gold.normalized_text) && is_score(answer.normalized_text)) return false;
    const std::string gold_phrase = canonical_phrase(gold.normalized_text),
                      answer_phrase = canonical_phrase(answer.normalized_text);
    if (gold_phrase == answer_phrase) return true;
    if (is_date(gold_phrase) || is_date(answer_phrase)) return false;
    try {
      if (gold.value && answer.value) {
        Comparison comparison(algebra_, evaluator_);
        if (comparison.equal(*gold.value, *answer.value)) return true;
        const NodePointer other = rename_to_match(*gold.node, *answer.node);
        return other && comparison.equal(*gold.value, evaluator_.evaluate(*other));
      }
    } catch (const Undecided&) {
    }
    Budget polynomial_budget(max_steps_ / 10);  // separate, because budget_ may be used up
    return gold.node && answer.node && polynomials_agree(*gold.node, *answer.node, polynomial_budget);
  }

  std::string display(const ParsedAnswer& side) const {
    return truncated(side.value ? evaluator_.to_string(*side.value) : side.normalized_text);
  }
  uint64_t steps() const { return std::min(budget_.used(), max_steps_); }

 private:
  uint64_t max_steps_;
  Budget budget_;
  Algebra algebra_;
  Evaluator evaluator_;
};

/// Compares choices: "(B) 12" matches "B" and "12", but not "(A) 12".
std::optional<bool> compare_choices(AnswerComparer& comparer, const ParsedAnswer& gold, const ParsedAnswer& answer) {
  const std::optional<Choice> gold_choice = parse_choice(gold.text), answer_choice = parse_choice(answer.text);
  if (!gold_choice && !answer_choice) return std::nullopt;
  const auto has_content = [](const std::optional<Choice>& choice) { return choice && !choice->content.empty(); };
  if (gold_choice && answer_choice) {
    if (gold_choice->letter != answer_choice->letter)
      return has_content(gold_choice) || has_content(answer_choice) ? std::optional(false) : std::nullopt;
    if (!has_content(gold_choice) || !has_content(answer_choice)) return true;
    return comparer.equal(comparer.parse(gold_choice->content), comparer.parse(answer_choice->content));
  }
  if (has_content(gold_choice)) return comparer.equal(comparer.parse(gold_choice->content), answer);
  if (has_content(answer_choice)) return comparer.equal(gold, comparer.parse(answer_choice->content));
  return std::nullopt;
}

/// True if the comma may be a decimal comma. "5,0" may be two numbers unless the other side has a decimal point. A gold
/// "3,5" is two numbers, but "0,5" and "1000,99" are decimals.
bool may_be_decimal(const std::string& text, bool list_is_answer, bool other_has_point) {
  const size_t point = text.find('.');
  const size_t begin = text.find_first_of("0123456789"), size = point - begin;
  const bool has_fraction = text.substr(point) != ".0";
  return (other_has_point || has_fraction) && (list_is_answer || size > 2 || text[begin] == '0');
}

/// Compares 2,74 with 2.74 and 1,00,000 with 100000, because a list cannot equal a single number.
bool compare_other_comma_styles(AnswerComparer& comparer, const ParsedAnswer& gold, const ParsedAnswer& answer) {
  for (const bool list_is_answer : {true, false}) {
    const ParsedAnswer &list = list_is_answer ? answer : gold, &number = list_is_answer ? gold : answer;
    const std::optional<std::string> grouped = remove_indian_commas(list.text);
    const std::optional<std::string> decimal = decimal_comma_to_point(list.text);
    if (grouped) return comparer.equal(comparer.parse(*grouped), number);
    if (decimal && may_be_decimal(*decimal, list_is_answer, number.text.find('.') != std::string::npos))
      return comparer.equal(comparer.parse(*decimal), number);
  }
  return false;
}

bool compare_answers(AnswerComparer& comparer, const ParsedAnswer& gold, const ParsedAnswer& answer) {
  if (const std::optional<bool> by_choice = compare_choices(comparer, gold, answer)) return *by_choice;
  return comparer.equal(gold, answer) || compare_other_comma_styles(comparer, gold, answer);
}

/// Parses the answer in a sentence; nullopt if the text is a formula or has no answer.
std::optional<ParsedAnswer> parse_sentence_answer(AnswerComparer& comparer, const ParsedAnswer& side) {
  if (side.value || parse_choice(side.text)) return std::nullopt;
  std::optional<ParsedAnswer> in_words;
  for (std::string& text : extract_sentence_answers(side.text, /*with_last_number=*/!side.node)) {
    const bool has_digit = text.find_first_of("0123456789") != std::string::npos;
    ParsedAnswer parsed = comparer.parse(std::move(text));
    if (parsed.value || parse_choice(parsed.text)) return parsed;
    if (!in_words && !has_digit) in_words = std::move(parsed);
  }
  return in_words;
}

}  // namespace

MathVerdict verify_math(std::string_view gold, std::string_view answer, uint64_t max_steps) {
  const std::optional<std::string> gold_text = extract_math_answer(gold), answer_text = extract_math_answer(answer);
  MathVerdict verdict;
  if (!gold_text || !answer_text) {
    verdict.gold = truncated(gold_text.value_or(""));
    verdict.answer = truncated(answer_text.value_or(""));
    return verdict;
  }
  AnswerComparer comparer(max_steps);
  try {
    ParsedAnswer parsed_gold = comparer.parse(*gold_text), parsed_answer = comparer.parse(*answer_text);
    verdict.correct = compare_answers(comparer, parsed_gold, parsed_answer);
    if (!verdict.correct) {
      std::optional<ParsedAnswer> answer_sentence = parse_sentence_answer(comparer, parsed_answer),
                                  gold_sentence = parse_sentence_answer(comparer, parsed_gold);
      if (answer_sentence) parsed_answer = std::move(*answer_sentence);
      if (gold_sentence) parsed_gold = std::move(*gold_sentence);
      if (answer_sentence || gold_sentence) verdict.correct = compare_answers(comparer, parsed_gold, parsed_answer);
    }
    verdict.gold = comparer.display(parsed_gold);
    verdict.answer = comparer.display(parsed_answer);
  } catch (const Undecided&) {
    verdict.correct = false;
    verdict.gold = truncated(*gold_text);
    verdict.answer = truncated(*answer_text);
  }
  verdict.steps = comparer.steps();
  return verdict;
}

}  // namespace keel
