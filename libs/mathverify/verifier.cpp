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

/// One side of the comparison: its text, its tree and, if it could be evaluated, its value.
struct Side {
  std::string text{}, signature{};
  NodePointer node{};
  std::optional<Value> value{};
};

std::string shortened(const std::string& text) {
  constexpr size_t kMaxShown = 1000;
  if (text.size() <= kMaxShown) return text;
  std::string beginning(text, 0, kMaxShown);
  return beginning.append("...");
}

/// A gold and an answer, understood with one algebra between them.
class Judge {
 public:
  explicit Judge(uint64_t max_steps)
      : max_steps_(max_steps), budget_(max_steps), algebra_(budget_), evaluator_(algebra_) {}

  Side understand(std::string text) {
    Side side{.text = std::move(text)};
    budget_.note(side.text.size());
    side.signature = side.text;  // of a script or length that no rule knows
    try {
      std::vector<Token> tokens = with_signs_for_phrases(with_numbers_for_words(tokenize(spelled_in_ascii(side.text))));
      budget_.note(300 * tokens.size());
      side.signature = text_signature(tokens);
      side.node = parse_phrase(side.signature);
      if (!side.node) side.node = parse_exception(tokens);
      if (!side.node) side.node = parse_math(std::move(tokens));
      side.value = evaluator_.evaluate(*side.node);
    } catch (const Undecided&) {
    }
    return side;
  }

  bool same(const Side& gold, const Side& answer) {
    if (gold.signature.empty() || answer.signature.empty()) return false;
    if (gold.signature == answer.signature) return true;
    if (is_score(gold.signature) && is_score(answer.signature)) return false;
    const std::string gold_phrase = canonical_phrase(gold.signature),
                      answer_phrase = canonical_phrase(answer.signature);
    if (gold_phrase == answer_phrase) return true;
    if (is_date(gold_phrase) || is_date(answer_phrase)) return false;
    try {
      if (gold.value && answer.value) {
        Comparison comparison(algebra_, evaluator_);
        if (comparison.equal(*gold.value, *answer.value)) return true;
        const NodePointer other = with_names_of(*gold.node, *answer.node);
        return other && comparison.equal(*gold.value, evaluator_.evaluate(*other));
      }
    } catch (const Undecided&) {
    }
    Budget rest(max_steps_ / 10);  // of its own, since that of the algebra may be spent
    return gold.node && answer.node && same_polynomials(*gold.node, *answer.node, rest);
  }

  std::string shown(const Side& side) const {
    return shortened(side.value ? evaluator_.to_string(*side.value) : side.signature);
  }
  uint64_t steps() const { return std::min(budget_.used(), max_steps_); }

 private:
  uint64_t max_steps_;
  Budget budget_;
  Algebra algebra_;
  Evaluator evaluator_;
};

/// "(B) 12" answers both "B" and "12", but not "(A) 12".
std::optional<bool> judge_choices(Judge& judge, const Side& gold, const Side& answer) {
  const std::optional<Choice> left = parse_choice(gold.text), right = parse_choice(answer.text);
  if (!left && !right) return std::nullopt;
  const auto labelled = [](const std::optional<Choice>& choice) { return choice && !choice->content.empty(); };
  if (left && right) {
    if (left->letter != right->letter) return labelled(left) || labelled(right) ? std::optional(false) : std::nullopt;
    if (!labelled(left) || !labelled(right)) return true;
    return judge.same(judge.understand(left->content), judge.understand(right->content));
  }
  if (labelled(left)) return judge.same(judge.understand(left->content), answer);
  if (labelled(right)) return judge.same(gold, judge.understand(right->content));
  return std::nullopt;
}

/// "5,0" may be two numbers unless the other side has a point; a gold "3,5" is two, but "0,5" and "1000,99" are none.
bool may_be_decimal(const std::string& text, bool of_answer, bool other_has_point) {
  const size_t point = text.find('.');
  const size_t begin = text.find_first_of("0123456789"), size = point - begin;
  const bool is_telling = text.substr(point) != ".0";
  return (other_has_point || is_telling) && (of_answer || size > 2 || text[begin] == '0');
}

/// 2,74 against 2.74 and 1,00,000 against 100000: a list cannot be the one number on the other side.
bool judge_other_commas(Judge& judge, const Side& gold, const Side& answer) {
  for (const bool of_answer : {true, false}) {
    const Side &list = of_answer ? answer : gold, &number = of_answer ? gold : answer;
    const std::optional<std::string> grouped = without_indian_commas(list.text);
    const std::optional<std::string> decimal = with_decimal_point(list.text);
    if (grouped) return judge.same(judge.understand(*grouped), number);
    if (decimal && may_be_decimal(*decimal, of_answer, number.text.find('.') != std::string::npos))
      return judge.same(judge.understand(*decimal), number);
  }
  return false;
}

bool judge_sides(Judge& judge, const Side& gold, const Side& answer) {
  if (const std::optional<bool> by_choice = judge_choices(judge, gold, answer)) return *by_choice;
  return judge.same(gold, answer) || judge_other_commas(judge, gold, answer);
}

/// What a sentence says; nothing when the text is a formula or says nothing.
std::optional<Side> spoken(Judge& judge, const Side& side) {
  if (side.value || parse_choice(side.text)) return std::nullopt;
  std::optional<Side> words;
  for (std::string& text : answers_in_sentence(side.text, /*with_last_number=*/!side.node)) {
    const bool has_digit = text.find_first_of("0123456789") != std::string::npos;
    Side inside = judge.understand(std::move(text));
    if (inside.value || parse_choice(inside.text)) return inside;
    if (!words && !has_digit) words = std::move(inside);
  }
  return words;
}

}  // namespace

MathVerdict verify_math(std::string_view gold, std::string_view answer, uint64_t max_steps) {
  const std::optional<std::string> wanted = extract_math_answer(gold), got = extract_math_answer(answer);
  MathVerdict verdict;
  if (!wanted || !got) {
    verdict.gold = shortened(wanted.value_or(""));
    verdict.answer = shortened(got.value_or(""));
    return verdict;
  }
  Judge judge(max_steps);
  try {
    Side left = judge.understand(*wanted), right = judge.understand(*got);
    verdict.correct = judge_sides(judge, left, right);
    if (!verdict.correct) {
      std::optional<Side> said = spoken(judge, right), wanted_said = spoken(judge, left);
      if (said) right = std::move(*said);
      if (wanted_said) left = std::move(*wanted_said);
      if (said || wanted_said) verdict.correct = judge_sides(judge, left, right);
    }
    verdict.gold = judge.shown(left);
    verdict.answer = judge.shown(right);
  } catch (const Undecided&) {
    verdict.correct = false;
    verdict.gold = shortened(*wanted);
    verdict.answer = shortened(*got);
  }
  verdict.steps = judge.steps();
  return verdict;
}

}  // namespace keel
