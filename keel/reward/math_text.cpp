#include "keel/reward/math_text.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "keel/reward/math_units.h"

namespace keel::math {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string lowered(std::string word) {
  const bool all_capitals = std::all_of(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  if ((word.size() < 3 || (all_capitals && word.size() < 5 && word != "YES" && word != "TRUE")) && word != "No" &&
      word != "NO")
    return word;  // ABC and abc are different things
  if (const std::string unit = behind_mega(word); !unit.empty()) return "M" + unit;
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

struct Phrase {
  std::string_view spelled, canonical;
};
constexpr Phrase kPhrases[] = {{"no solution", "no solution"},
                               {"no solutions", "no solution"},
                               {"no real solution", "no solution"},
                               {"no real solutions", "no solution"},
                               {"there is no solution", "no solution"},
                               {"there are no solutions", "no solution"},
                               {"empty set", "no solution"},
                               {"the empty set", "no solution"},
                               {"all real numbers", "all reals"},
                               {"all reals", "all reals"},
                               {"any real number", "all reals"},
                               {"all real", "all reals"},
                               {"infinitely many", "infinitely many"},
                               {"infinite many", "infinitely many"},
                               {"infinitely many solutions", "infinitely many"},
                               {"infinite solutions", "infinitely many"},
                               {"infinite number of solutions", "infinitely many"},
                               {"an infinite number of solutions", "infinitely many"},
                               {"infinite", "infinitely many"},
                               {"there are infinitely many solutions", "infinitely many"},
                               {"does not exist", "dne"},
                               {"dne", "dne"},
                               {"undefined", "undefined"}};

/// The last sentence of a line that has a digit, with $ around its formulas however they were written.
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
      current.clear();
      has_digit = false;
      continue;
    }
    current += c;
  }
  return has_digit ? current : last;
}

}  // namespace

std::string text_signature(const std::vector<Token>& tokens) {
  std::string signature;
  for (const Token& token : tokens) {
    if (token.kind == Token::Kind::kEnd) break;
    if (!signature.empty()) signature += ' ';
    switch (token.kind) {
      case Token::Kind::kNumber:
        signature += token.is_plain_integer && token.text[0] != '0' ? token.text : token.value.to_string();
        if (token.is_based) signature += '_';
        break;
      case Token::Kind::kCommand:
        signature += "\\" + token.text;
        break;
      case Token::Kind::kWord:
        signature += lowered(token.text);
        break;
      case Token::Kind::kText: {
        std::string words, word;
        for (const char c : token.text + " ") {
          if (is_letter(c)) {
            word += c;
          } else if (!word.empty()) {
            words += (words.empty() ? "" : " ") + lowered(word);
            word.clear();
          }
        }
        signature += words;
        break;
      }
      default:
        signature += token.text;
    }
  }
  if (signature.ends_with(" .")) signature.resize(signature.size() - 2);
  return signature;
}

std::string canonical_phrase(const std::string& signature) {
  if (signature.empty() || !is_letter(signature[0])) return signature;
  for (const Phrase& phrase : kPhrases)
    if (signature == phrase.spelled) return std::string(phrase.canonical);
  return signature;
}

NodePointer parse_phrase(std::string_view signature) {
  const std::string phrase = canonical_phrase(std::string(signature));
  NodePointer node = std::make_unique<Node>();
  if (phrase == "no solution") {
    node->kind = Node::Kind::kEmptySet;
  } else if (phrase == "all reals") {
    node->kind = Node::Kind::kReals;
  } else {
    return nullptr;
  }
  return node;
}

std::optional<Choice> parse_choice(std::string_view answer) {
  const char first = answer.empty() ? ' ' : answer[0];
  if (first != '(' && first != '\\' && first != '$' && (first < 'A' || first > 'J')) return std::nullopt;
  std::string text = spelled_in_ascii(answer.substr(0, 2000));
  for (const std::string_view wrapper : {"\\textbf{", "\\text{", "\\mathrm{", "\\mathbf{"}) {
    if (std::string_view(text).starts_with(wrapper)) {
      const size_t close = text.find('}');
      if (close == std::string::npos) return std::nullopt;
      text = text.substr(wrapper.size(), close - wrapper.size()) + " " + text.substr(close + 1);
    }
  }
  std::string_view rest = trimmed(text);
  const bool parenthesized = rest.starts_with("(");
  if (parenthesized) rest.remove_prefix(1);
  rest = trimmed(rest);
  if (rest.empty() || rest[0] < 'A' || rest[0] > 'J') return std::nullopt;
  Choice choice{.letter = std::string(1, rest[0])};
  rest.remove_prefix(1);
  if (parenthesized || rest.starts_with(")") || rest.starts_with(".") || rest.starts_with(":")) {
    if (parenthesized && !rest.starts_with(")")) return std::nullopt;
    rest.remove_prefix(1);
  } else if (!trimmed(rest).empty()) {
    return std::nullopt;
  }
  while (!rest.empty() &&
         (rest[0] == ' ' || rest[0] == ':' || rest[0] == '.' || rest[0] == '~' || rest.starts_with("\\ ")))
    rest.remove_prefix(rest[0] == '\\' ? 2 : 1);
  choice.content = std::string(trimmed(rest));
  // (A)(B) and A.5 are something else
  if (!choice.content.empty() && !is_digit(choice.content[0]) && !is_letter(choice.content[0]) &&
      choice.content[0] != '\\' && choice.content[0] != '-')
    return std::nullopt;
  return choice;
}

std::optional<std::string> answer_in_sentence(std::string_view line) {
  // "It is not 5", "at least 5" and "5 or 6" do not answer 5.
  static constexpr std::string_view kTurning[] = {
      "not",      "never",   "no",       "isn't",   "least",         "most",     "more",      "less",   "than",
      "fewer",    "greater", "between",  "about",   "approximately", "around",   "roughly",   "or",     "either",
      "maybe",    "perhaps", "probably", "nearly",  "almost",        "wrong",    "incorrect", "cannot", "can't",
      "unless",   "except",  "if",       "could",   "might",         "guess",    "and",       "versus", "minus",
      "negative", "plus",    "times",    "million", "billion",       "thousand", "hundred",   "dozen",  "half",
      "doesn't",  "don't",   "out",      "from",    "instead",       "rather"};
  constexpr size_t kMinWords = 3, kMaxLine = 4000;
  if (line.size() > kMaxLine) return std::nullopt;
  const std::string text = last_sentence_with_number(line);
  const std::string_view sentence = text;
  const bool has_formulas = std::count(text.begin(), text.end(), '$') % 2 == 0;  // else a dollar sign means money
  size_t words = 0;
  bool in_formula = false;
  std::string word;
  for (const char c : text + " ") {
    if (!in_formula && (is_letter(c) || c == '\'')) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    in_formula ^= c == '$' && has_formulas;
    if (word.empty()) continue;
    if (std::find(std::begin(kTurning), std::end(kTurning), word) != std::end(kTurning)) return std::nullopt;
    words += word.size() > 1 || word == "a" || word == "i";
    word.clear();
  }
  // The last formula between dollar signs, unless a number follows it.
  const size_t close = sentence.rfind('$');
  if (close != std::string_view::npos && close > 0 && words > 0 && has_formulas) {
    const size_t open = sentence.rfind('$', close - 1);
    const bool is_last = std::none_of(sentence.begin() + static_cast<std::ptrdiff_t>(close), sentence.end(), is_digit);
    if (open != std::string_view::npos && open + 1 < close && is_last)
      return std::string(sentence.substr(open + 1, close - open - 1));
  }
  if (words < kMinWords) return std::nullopt;
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
  return number;
}

std::optional<std::string> with_decimal_point(std::string_view answer) {
  const size_t comma = answer.find(',');
  if (comma == std::string_view::npos || comma == 0 || comma + 1 == answer.size()) return std::nullopt;
  std::string result(answer);
  result[comma] = '.';
  const std::string_view sign_and_digits = answer.starts_with("-") ? answer.substr(1) : answer;
  if (std::count_if(sign_and_digits.begin(), sign_and_digits.end(), is_digit) + 1 !=
      static_cast<std::ptrdiff_t>(sign_and_digits.size()))
    return std::nullopt;
  const bool groups_thousands = answer.size() - comma - 1 == 3 && sign_and_digits[0] != '0';
  if (groups_thousands) return std::nullopt;
  return result;
}

}  // namespace keel::math
