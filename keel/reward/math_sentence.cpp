// Answers inside sentences: "Therefore, she makes 18 dollars every day."

#include <algorithm>
#include <cctype>

#include "keel/reward/math_text.h"
#include "keel/reward/math_units.h"

namespace keel::math {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// With one of these a sentence may say that it is not the number, or not just the number.
constexpr std::string_view kTurning[] = {
    "not",     "never",   "no",    "isn't",  "least",         "most",    "more",    "less",   "than",    "fewer",
    "greater", "between", "about", "around", "approximately", "roughly", "either",  "maybe",  "perhaps", "probably",
    "nearly",  "almost",  "wrong", "unless", "incorrect",     "cannot",  "can't",   "except", "if",      "when",
    "could",   "might",   "guess", "versus", "doesn't",       "don't",   "instead", "rather"};
// With one of these the last number of a sentence may be a part of what it says.
constexpr std::string_view kJoining[] = {"or",      "and",      "minus",   "negative", "plus", "times", "million",
                                         "billion", "thousand", "hundred", "dozen",    "half", "out",   "from"};

template <size_t N>
bool is_one_of(std::string_view word, const std::string_view (&list)[N]) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

/// The last sentence of a line that has a digit, else the last one, with $ around its formulas however they were
/// written.
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

/// What the words of a sentence, outside of its formulas, allow to be read from it.
struct Words {
  size_t count = 0;
  bool turns = false;
  bool joins = false;  // numbers, possibly
};

Words words_of(const std::string& text, bool has_formulas) {
  Words result;
  bool in_formula = false, has_digit = false;
  size_t joined_at = std::string::npos;  // with a digit before it
  std::string word;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ' ';
    if (!in_formula && (is_letter(c) || c == '\'')) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    has_digit |= is_digit(c);
    result.joins |= is_digit(c) && joined_at != std::string::npos;
    in_formula ^= c == '$' && has_formulas;
    if (word.empty()) continue;
    result.turns |= is_one_of(word, kTurning);
    if (word == "and") {  // "5 in April and May" joins no numbers
      if (has_digit) joined_at = i;
    } else {
      result.joins |= is_one_of(word, kJoining);
    }
    result.count += word.size() > 1 || word == "a" || word == "i";
    word.clear();
  }
  return result;
}

/// The last formula between dollar signs, unless a number follows it.
std::optional<std::string> last_formula(std::string_view sentence) {
  const size_t close = sentence.rfind('$');
  if (close == std::string_view::npos || close == 0) return std::nullopt;
  const size_t open = sentence.rfind('$', close - 1);
  const bool is_last = std::none_of(sentence.begin() + static_cast<std::ptrdiff_t>(close), sentence.end(), is_digit);
  if (open == std::string_view::npos || open + 1 >= close || !is_last) return std::nullopt;
  return std::string(sentence.substr(open + 1, close - open - 1));
}

/// What the subject of a sentence is said to be.
std::optional<std::string> behind_verb(std::string_view sentence) {
  size_t begin = 0;
  for (const std::string_view verb : {" is ", " are ", " equals ", " be ", " equal to ", ": "})
    if (const size_t at = sentence.rfind(verb); at != std::string_view::npos) begin = std::max(begin, at + verb.size());
  while (begin < sentence.size() && (sentence[begin] == ' ' || sentence[begin] == ':')) ++begin;
  if (begin == 0 || begin >= sentence.size()) return std::nullopt;
  std::string_view rest = sentence.substr(begin);
  while (rest.ends_with('.') && !rest.ends_with("..")) rest.remove_suffix(1);
  return std::string(rest);
}

/// "3 fourths" is not 3.
bool changes_number(std::string_view rest) {
  const size_t begin = std::min(rest.find_first_not_of(' '), rest.size());
  size_t end = begin;
  while (end < rest.size() && is_letter(rest[end])) ++end;
  const std::string_view word = rest.substr(begin, end - begin);
  if (word == "for" || word == "and" || word == "but" || word == "is") return false;
  try {
    parse_unit(word);
  } catch (const Undecided&) {
    return true;
  }
  return false;
}

/// The last number that stands for itself.
std::optional<std::string> last_number(std::string_view sentence) {
  size_t end = sentence.size();
  while (end > 0 && !is_digit(sentence[end - 1])) --end;
  if (end == 0) return std::nullopt;
  for (const std::string_view dots : {"..", "dots", "\u2026"})  // 0.333... and 1, 2, 3, ... go on
    if (sentence.find(dots, end) != std::string_view::npos) return std::nullopt;
  size_t start = end;
  const auto belongs = [](char c) { return is_digit(c) || c == ',' || c == '.' || c == '/'; };
  while (start > 0 && belongs(sentence[start - 1])) --start;
  while (start < end && !is_digit(sentence[start]) && sentence[start] != '.') ++start;
  if (start > 0 && (sentence[start - 1] == '-' || sentence[start - 1] == '+')) {
    const bool is_sign = start < 2 || sentence[start - 2] == ' ' || sentence[start - 2] == '$';
    if (!is_sign) return std::nullopt;
    --start;
  } else if (start > 0 && sentence[start - 1] != ' ' && sentence[start - 1] != '$' && sentence[start - 1] != '=') {
    return std::nullopt;  // x2, 3^5, (7
  }
  size_t before = start;  // "3 + 5" does not say 5
  while (before > 0 && sentence[before - 1] == ' ') --before;
  if (before > 0 && std::string_view("+-*/^(<>").find(sentence[before - 1]) != std::string_view::npos)
    return std::nullopt;
  std::string number(sentence.substr(start, end - start));
  if (end < sentence.size() && sentence[end] == '%') number += "%";
  if (end < sentence.size() &&
      (is_letter(sentence[end]) || sentence[end] == '^' || sentence[end] == ')' || sentence[end] == '}'))
    return std::nullopt;
  if (changes_number(sentence.substr(end))) return std::nullopt;
  return number;
}

}  // namespace

std::vector<std::string> answers_in_sentence(std::string_view line, bool with_last_number) {
  constexpr size_t kMinWords = 3, kMaxLine = 4000;
  if (line.size() > kMaxLine) return {};
  const std::string text = last_sentence_with_number(line);
  const bool has_formulas = std::count(text.begin(), text.end(), '$') % 2 == 0;  // else a dollar sign means money
  const Words words = words_of(text, has_formulas);
  if (words.turns || words.count == 0) return {};
  std::vector<std::string> answers;
  const auto add = [&](std::optional<std::string> answer) {
    if (answer) answers.push_back(std::move(*answer));
  };
  if (has_formulas && !words.joins) add(last_formula(text));
  if (!answers.empty()) return answers;
  add(behind_verb(text));
  if (with_last_number && words.count >= kMinWords && !words.joins) add(last_number(text));
  return answers;
}

}  // namespace keel::math
