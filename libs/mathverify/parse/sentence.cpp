// Extracts answers from sentences: "Therefore, she makes 18 dollars every day."

#include <algorithm>
#include <cctype>

#include "libs/mathverify/parse/characters.h"
#include "libs/mathverify/parse/plain_text.h"
#include "libs/mathverify/parse/units.h"

namespace keel::math {
namespace {

// Words that may negate the number of a sentence.
constexpr std::string_view kNegations[] = {"not",     "never",     "no",         "isn't",    "doesn't",   "don't",
                                           "wrong",   "incorrect", "cannot",     "can't",    "instead",   "rather",
                                           "neither", "nor",       "impossible", "couldn't", "shouldn't", "wasn't",
                                           "aren't",  "won't",     "wouldn't",   "unlikely", "false"};
// Words that qualify the number.
constexpr std::string_view kQualifiers[] = {
    "least",    "most",          "more",     "less",      "than",        "fewer",   "greater",  "between",   "about",
    "around",   "approximately", "roughly",  "either",    "maybe",       "perhaps", "probably", "nearly",    "almost",
    "unless",   "except",        "if",       "when",      "might",       "guess",   "but",      "versus",    "close",
    "near",     "over",          "under",    "below",     "above",       "exceeds", "within",   "up",        "could",
    "possibly", "until",         "estimate", "estimated", "approximate", "approx",  "exceed",   "excluding", "without",
    "besides",  "doubt",         "doubtful", "unsure",    "far",
};
// Words that combine the last number with others.
constexpr std::string_view kCombiners[] = {"or",      "and",      "minus",   "negative", "plus", "times", "million",
                                           "billion", "thousand", "hundred", "dozen",    "half", "out",   "from"};

/// Normalizes arithmetic operators to ASCII ("16 x 3" multiplies) and strips bold.
std::string normalize_operators(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kReplacements[] = {
      {"\u2212", "-"}, {"\u2013", "-"}, {"\u00D7", "*"}, {"\u2192", ":"}, {" x ", " * "}, {"**", ""}};
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const auto* found = std::find_if(std::begin(kReplacements), std::end(kReplacements),
                                     [&](const auto& each) { return text.substr(at).starts_with(each.first); });
    const bool is_letter_x = found != std::end(kReplacements) && found->second == " * ";
    const auto digit = [&](size_t i) { return i < text.size() && (is_digit(text[i]) || text[i] == '$'); };
    const bool is_sign =
        found != std::end(kReplacements) && (!is_letter_x || (at > 0 && digit(at - 1) && digit(at + 3)));
    result += is_sign ? found->second : text.substr(at, 1);
    at += is_sign ? found->first.size() : 1;
  }
  return result;
}

/// True if the three digits at `at` continue the number before the space: 118 000.
bool continues_number(std::string_view text, size_t at) {
  const auto digit = [&](size_t i) { return i < text.size() && is_digit(text[i]); };
  return at >= 2 && text[at - 1] == ' ' && digit(at - 2) && digit(at) && digit(at + 1) && digit(at + 2) &&
         !digit(at + 3);
}

/// The last sentence of a line that has a digit, else the last one. All formula delimiters become $.
std::string last_sentence_with_number(std::string_view line) {
  std::string current, last;
  bool in_formula = false, has_digit = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i], next = i + 1 < line.size() ? line[i + 1] : ' ';
    if (c == '\\' && (next == '(' || next == ')' || next == '[' || next == ']')) {
      current += '$';
      in_formula = next == '(' || next == '[';
      ++i;
      continue;
    }
    if (c == '\\' && i + 1 < line.size()) {
      current += c;
      current += next;
      ++i;
      continue;
    }
    in_formula ^= c == '$';
    has_digit |= is_digit(c);
    if (c == '.' && next == ' ' && !in_formula) {
      if (has_digit) last = current;
      if (i + 2 < line.size()) current.clear();
      has_digit = false;
      continue;
    }
    current += c;
  }
  return has_digit || last.empty() ? current : last;
}

/// Properties of the words of a sentence outside its formulas.
struct WordFlags {
  size_t count = 0;
  bool negates = false, qualifies = false;
  bool combines_numbers = false;  // the last number may be a part of the answer
};

WordFlags scan_words(const std::string& text, bool has_formulas) {
  WordFlags result;
  bool in_formula = false, has_digit = false;
  size_t and_at = std::string::npos;  // position of an "and" after a digit
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ' ';
    if (!in_formula && (is_letter(c) || c == '\'')) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    has_digit |= is_digit(c);
    result.combines_numbers |= is_digit(c) && and_at != std::string::npos;
    in_formula ^= c == '$' && has_formulas;
    if (word.empty()) continue;
    result.negates |= is_one_of(word, kNegations);
    // "6 more eggs" means 6; "6 more than x" and "6 more" may be a part
    const size_t before = text.find_last_not_of(' ', i - word.size() - 1);
    const bool is_quantity = word == "more" && before < i && is_digit(text[before]) && i + 1 < text.size() &&
                             text[i] == ' ' && is_letter(text[i + 1]);
    result.qualifies |= is_one_of(word, kQualifiers) && !is_quantity;
    if (word == "and") {  // "5 in April and May" joins no numbers
      if (has_digit) and_at = i;
    } else {
      result.combines_numbers |= is_one_of(word, kCombiners);
    }
    result.count += word.size() > 1 || word == "a" || word == "i";
    word.clear();
  }
  return result;
}

/// The last formula between dollar signs, unless a number follows. Includes preceding formulas separated by commas.
std::optional<std::string> last_formula(std::string_view sentence) {
  const size_t close = sentence.rfind('$');
  if (close == std::string_view::npos || close == 0) return std::nullopt;
  size_t open = sentence.rfind('$', close - 1);
  while (open != std::string_view::npos && open >= 5 && sentence.substr(open - 3, 3) == "$, ") {
    const size_t before = sentence.rfind('$', open - 4);
    if (before == std::string_view::npos) break;
    open = before;
  }
  const bool is_last = std::none_of(sentence.begin() + static_cast<std::ptrdiff_t>(close), sentence.end(), is_digit);
  if (open == std::string_view::npos || open + 1 >= close || !is_last) return std::nullopt;
  return std::string(sentence.substr(open + 1, close - open - 1));
}

/// Returns "16 - 8 = 8" of "Peter has 16 - 8 = $8 more than Martha in 3 boxes". The caller checks whether it is true.
std::optional<std::string> last_computation(std::string_view sentence) {
  constexpr std::string_view kArithmetic = "0123456789.,+-*/()% $", kOperators = "+-*/";
  const size_t sign = sentence.rfind('=');
  if (sign == std::string_view::npos) return std::nullopt;
  size_t begin = sign, end = std::min(sentence.find_first_not_of(" $", sign + 1), sentence.size());
  while (begin > 0 && kArithmetic.find(sentence[begin - 1]) != std::string_view::npos) --begin;
  const std::string_view left = sentence.substr(begin, sign - begin);
  const size_t number = end;
  while (end < sentence.size() && (is_digit(sentence[end]) || sentence[end] == '.' || sentence[end] == ',' ||
                                   (end > number && continues_number(sentence, end + 1))))
    ++end;
  while (end > number && !is_digit(sentence[end - 1])) --end;
  if (end == number || left.find_first_of(kOperators) == std::string_view::npos) return std::nullopt;
  std::string computation(left.substr(std::min(left.find_first_not_of(" .,"), left.size())));
  computation += "=";
  computation += sentence.substr(number, end - number);
  if (end < sentence.size() && sentence[end] == '%') computation += '%';
  std::erase(computation, '$');
  return computation;
}

/// Returns the text after the last verb.
std::optional<std::string> text_after_verb(std::string_view sentence) {
  size_t begin = 0;
  for (const std::string_view verb : {" is ", " was ", " are ", " equals ", " be ", " equal to ", ": ", " get ",
                                      " got ", " gives ", " obtain ", " have ", " find ", "'s "})
    if (const size_t at = sentence.rfind(verb); at != std::string_view::npos) begin = std::max(begin, at + verb.size());
  while (begin < sentence.size() && (sentence[begin] == ' ' || sentence[begin] == ':')) ++begin;
  if (begin == 0 || begin >= sentence.size()) return std::nullopt;
  std::string_view rest = sentence.substr(begin);
  if (rest.starts_with("at ")) rest.remove_prefix(3);  // "the vertex is at (1, 2)"
  while (rest.ends_with('.') && !rest.ends_with("..")) rest.remove_suffix(1);
  static constexpr std::string_view kPredicates[] = {"the answer", "the final answer", "the correct answer", "correct"};
  if (!is_one_of(rest, kPredicates)) return std::string(rest);
  std::string_view subject = sentence.substr(0, sentence.substr(0, begin - 1).rfind(' '));  // "12 is the answer"
  const size_t space = subject.rfind(' ');
  return std::string(space == std::string_view::npos ? subject : subject.substr(space + 1));
}

/// Returns the text after "Therefore," or a similar word.
std::optional<std::string> text_after_adverb(std::string_view sentence) {
  for (const std::string_view adverb : {"Therefore", "Thus", "Hence", "So", "Then"}) {
    if (!sentence.starts_with(adverb)) continue;
    std::string_view rest = sentence.substr(adverb.size());
    if (!rest.starts_with(",") && !rest.starts_with(" ")) continue;
    while (rest.starts_with(",") || rest.starts_with(" ")) rest.remove_prefix(1);
    return std::string(rest);
  }
  return std::nullopt;
}

/// True if the next word changes a number: "3 fourths" is not 3.
bool changes_number(std::string_view rest) {
  const size_t begin = std::min(rest.find_first_not_of(' '), rest.size());
  size_t end = begin;
  while (end < rest.size() && is_letter(rest[end])) ++end;
  const std::string_view word = rest.substr(begin, end - begin);
  if (word == "for" || word == "and" || word == "but" || word == "is" || word == "more") return false;
  try {
    parse_unit(word);
  } catch (const Undecided&) {
    return true;
  }
  return false;
}

/// True if the text before an equals sign is a computation, "8 lessons * 3 = 24", and not a name, "x = 2 or y = 3".
bool is_computed(std::string_view left) {
  while (left.ends_with(' ')) left.remove_suffix(1);
  const size_t space = left.rfind(' ');
  const std::string_view last = space == std::string_view::npos ? left : left.substr(space + 1);
  const bool is_name =
      last.find_first_of("_(\\'") != std::string_view::npos || (last.size() == 1 && is_letter(last[0]));
  return !is_name && left.find_first_of("+-*/") != std::string_view::npos;
}

/// True if a phrase computes another number: "the number of divisors" of 5 is not 5, but "the total" of 5 is.
bool is_function_of(std::string_view phrase) {
  const size_t article = phrase.rfind("the ");
  if (article == std::string_view::npos || (article > 0 && phrase[article - 1] != ' ')) return false;
  static constexpr std::string_view kNames[] = {"total", "value", "amount",  "maximum", "minimum", "age",
                                                "price", "cost",  "score",   "length",  "height",  "width",
                                                "area",  "sum",   "average", "quantity"};
  static constexpr std::string_view kVerbs[] = {"is", "are", "was", "were", "has", "have", "had", "needs", "gets"};
  phrase.remove_prefix(article + 4);
  std::string_view word;
  while (!phrase.empty()) {
    const size_t space = std::min(phrase.find(' '), phrase.size());
    word = phrase.substr(0, space);
    if (is_one_of(word, kVerbs)) return false;
    phrase.remove_prefix(std::min(space + 1, phrase.size()));
  }
  return !is_one_of(word, kNames);
}

/// True if the text before a number makes it an operand: "the square of", "a multiple of", "twice".
bool is_operand(std::string_view before) {
  static constexpr std::string_view kOperations[] = {
      "square",  "cube",    "root",     "multiple", "multiples", "reciprocal", "opposite",  "inverse", "factor",
      "divisor", "power",   "negative", "half",     "third",     "quarter",    "logarithm", "double",  "twice",
      "triple",  "factors", "powers",   "squares",  "fraction",  "divisible",  "by",        "absolute"};
  if (before.ends_with(" of")) {
    before.remove_suffix(3);
    if (is_function_of(before)) return true;
  }
  const size_t space = before.rfind(' ');
  std::string word(space == std::string_view::npos ? before : before.substr(space + 1));
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return is_one_of(word, kOperations);
}

/// The last standalone number; with `only_result`, only after an equals sign.
std::optional<std::string> last_sentence_number(std::string_view sentence, bool only_result) {
  size_t end = sentence.size();
  while (end > 0 && !is_digit(sentence[end - 1])) --end;
  if (end == 0) return std::nullopt;
  for (const std::string_view dots : {"..", "dots", "\u2026"})  // 0.333... and 1, 2, 3, ... continue
    if (sentence.find(dots, end) != std::string_view::npos) return std::nullopt;
  size_t start = end;
  const auto belongs = [](char c) { return is_digit(c) || c == ',' || c == '.' || c == '/'; };
  while (start > 0 && (belongs(sentence[start - 1]) || continues_number(sentence, start))) --start;
  while (start < end && !is_digit(sentence[start]) && sentence[start] != '.') ++start;
  if (start > 0 && (sentence[start - 1] == '-' || sentence[start - 1] == '+')) {
    const bool is_sign = start < 2 || sentence[start - 2] == ' ' || sentence[start - 2] == '$';
    if (!is_sign) return std::nullopt;
    --start;
  } else if (start > 0 && sentence[start - 1] != ' ' && sentence[start - 1] != '$' && sentence[start - 1] != '=') {
    return std::nullopt;  // x2, 3^5, (7
  }
  size_t before = start;  // the answer of "3 + 5" is not 5
  while (before > 0 && (sentence[before - 1] == ' ' || sentence[before - 1] == '$')) --before;
  const bool is_result = before > 0 && sentence[before - 1] == '=';
  const bool has_result = sentence.substr(0, start).find('=') != std::string_view::npos;  // "= 8 rows of 5 stars"
  if ((only_result || has_result) && !is_result) return std::nullopt;
  if (only_result && !is_computed(sentence.substr(0, before - 1))) return std::nullopt;
  if (before > 0 && std::string_view("+-*/^(<>").find(sentence[before - 1]) != std::string_view::npos)
    return std::nullopt;
  if (is_operand(sentence.substr(0, before))) return std::nullopt;
  std::string number(sentence.substr(start, end - start));
  if (end < sentence.size() && sentence[end] == '%') number += "%";
  if (end < sentence.size() &&
      (is_letter(sentence[end]) || sentence[end] == '^' || sentence[end] == ')' || sentence[end] == '}'))
    return std::nullopt;
  if (changes_number(sentence.substr(end))) return std::nullopt;
  return number;
}

}  // namespace

std::vector<std::string> extract_sentence_answers(std::string_view line, bool with_last_number) {
  constexpr size_t kMinWords = 3, kMaxLine = 4000;
  if (line.size() > kMaxLine) return {};
  const std::string text = last_sentence_with_number(normalize_operators(line));
  const bool has_formulas = std::count(text.begin(), text.end(), '$') % 2 == 0;  // otherwise $ means money
  const WordFlags words = scan_words(text, has_formulas);
  if (words.negates) return {};
  std::vector<std::string> answers;
  const auto add = [&](std::optional<std::string> answer) {
    if (answer) answers.push_back(std::move(*answer));
  };
  if (words.count == 0) {  // "Let me see. 48 + 24 = 72."
    if (text.size() < line.size()) add(last_computation(text));
    return answers;
  }
  if (has_formulas && !words.combines_numbers && !words.qualifies) add(last_formula(text));
  if (!answers.empty()) return answers;
  add(last_computation(text));
  if (words.qualifies) return answers;
  add(text_after_adverb(text));
  add(text_after_verb(text));
  const bool is_money = text.find('$') != std::string::npos && !has_formulas;
  if (with_last_number && (words.count >= kMinWords || is_money))
    add(last_sentence_number(text, /*only_result=*/words.combines_numbers));
  return answers;
}

}  // namespace keel::math
