#include "libs/mathverify/parse/plain_text.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "libs/mathverify/parse/characters.h"
#include "libs/mathverify/parse/units.h"

namespace keel::math {
namespace {

std::string lowered_word(std::string word) {
  const bool all_capitals = std::all_of(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  if ((word.size() < 3 || (all_capitals && word.size() < 5 && word != "YES" && word != "TRUE")) && word != "No" &&
      word != "NO")
    return word;  // ABC and abc are different things
  if (const std::string unit = unit_after_mega(word); !unit.empty()) return "M" + unit;
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
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
                               {"undefined", "undefined"},
                               {"not defined", "undefined"},
                               {"there is no real solution", "no solution"},
                               {"there are no real solutions", "no solution"},
                               {"no solution exists", "no solution"},
                               {"no solutions exist", "no solution"},
                               {"the equation has no solution", "no solution"},
                               {"the equation has no solutions", "no solution"},
                               {"the equation has no real solutions", "no solution"},
                               {"the system has no solution", "no solution"},
                               {"the system has no solutions", "no solution"},
                               {"the set of all real numbers", "all reals"},
                               {"set of all real numbers", "all reals"},
                               {"every real number", "all reals"},
                               {"all real values of x", "all reals"},
                               {"all real numbers x", "all reals"},
                               {"any real number x", "all reals"},
                               {"it does not exist", "dne"},
                               {"the limit does not exist", "dne"}};

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    if (space > 0) words.push_back(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return words;
}

/// Month, day and year of "January 5, 2024", "5th of January 2024" or "Jan. 5"; empty if the text is not only a date.
std::string canonical_date(std::string_view text) {
  static constexpr std::string_view kMonths[] = {"january", "february", "march",     "april",   "may",      "june",
                                                 "july",    "august",   "september", "october", "november", "december"};
  static constexpr std::string_view kIgnoredWords[] = {",", ".", "of", "the", "th", "st", "nd", "rd"};
  constexpr size_t kMaxWords = 8, kMaxDate = 100;
  std::string month, day, year;
  const std::vector<std::string_view> words = split(text.substr(0, kMaxDate));
  if (words.size() > kMaxWords || text.size() > kMaxDate) return "";
  for (const std::string_view word : words) {
    if (std::find(std::begin(kIgnoredWords), std::end(kIgnoredWords), word) != std::end(kIgnoredWords)) continue;
    if (std::all_of(word.begin(), word.end(), is_digit)) {
      std::string& part = word.size() <= 2 ? day : year;
      if (!part.empty()) return "";
      part = word;
      continue;
    }
    const auto* found = std::find_if(std::begin(kMonths), std::end(kMonths), [&](std::string_view each) {
      return word == each || (word.size() >= 3 && word.size() <= 4 && each.starts_with(word));
    });
    if (found == std::end(kMonths) || !month.empty()) return "";
    month = *found;
  }
  if (month.empty() || day.empty()) return "";
  return "date " + month + " " + day + " " + year;
}

/// The digits of 12.345 or 12 345, with groups of three; empty for others.
std::string grouped_digits(std::string_view whole) {
  std::string digits;
  size_t group = 0;
  bool is_grouped = false;
  for (const char c : whole) {
    if (is_digit(c)) {
      digits += c;
      ++group;
      continue;
    }
    if (is_grouped ? group != 3 : group > 3 || group == 0) return "";
    is_grouped = true;
    group = 0;
  }
  return is_grouped && group != 3 ? "" : digits;
}

/// True if the words after "yes ," or "no ," do not change it.
bool is_harmless_comment(std::string_view words, std::string_view verdict) {
  const std::vector<std::string_view> all = split(words);
  const bool gives_reason = all.size() > 2 && (all[2] == "because" || all[2] == "since");
  return std::none_of(all.begin() + 1, all.end(), [&](std::string_view word) {
    return word == "yes" || word == "no" || (word == "not" && verdict != "no") || word == "but" || word == "if" ||
           (is_digit(word[0]) && !gives_reason);
  });
}

/// Normalizes "Alice and Bob" to "Alice, Bob".
std::string replace_and_by_commas(const std::string& words) {
  constexpr size_t kMaxWords = 500;  // bytes
  const bool are_words =
      std::all_of(words.begin(), words.end(), [](char c) { return is_letter(c) || c == ' ' || c == ','; });
  if (!are_words || words.size() > kMaxWords) return words;
  std::string result;
  for (const std::string_view word : split(words)) {
    const std::string_view next = word == "and" ? "," : word;
    if (next == "," && result.ends_with(" ,")) continue;
    if (!result.empty()) result += ' ';
    result += next;
  }
  return result;
}

/// Normalizes "an ellipse" to "ellipse"; "a b" stays a product.
std::string strip_article(const std::string& text) {
  const std::vector<std::string_view> words = split(text);
  if (words.size() < 2 || (words[0] != "a" && words[0] != "an" && words[0] != "An" && words[0] != "the")) return text;
  const auto is_name = [](std::string_view word) {
    return word.size() > 3 && std::all_of(word.begin(), word.end(), is_letter);
  };
  if (!std::all_of(words.begin() + 1, words.end(), is_name)) return text;
  return text.substr(words[0].size() + 1);
}

}  // namespace

std::string normalize_text(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token& token : tokens) {
    if (token.kind == Token::Kind::kEnd) break;
    if (!text.empty()) text += ' ';
    switch (token.kind) {
      case Token::Kind::kNumber:
        text += token.is_plain_integer && token.text[0] != '0' ? token.text : token.value.to_string();
        if (token.is_based) text += '_';
        break;
      case Token::Kind::kCommand:
        text += "\\" + token.text;
        break;
      case Token::Kind::kWord:
        text += lowered_word(token.text);
        break;
      case Token::Kind::kText: {
        std::string words, word;
        for (const char c : token.text + " ") {
          if (is_letter(c)) {
            word += c;
          } else if (!word.empty()) {
            words += (words.empty() ? "" : " ") + lowered_word(word);
            word.clear();
          }
        }
        text += words;
        break;
      }
      default:
        text += token.text;
    }
  }
  if (text.ends_with(" .")) text.resize(text.size() - 2);
  return text;
}

std::string canonical_phrase(const std::string& text) {
  if (const std::string date = canonical_date(text); !date.empty()) return date;
  if (text.empty() || !is_letter(text[0])) return text;
  std::string words = text;
  for (char& c : words) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (words.ends_with(" !")) words.resize(words.size() - 2);
  if (words == "yes" || words == "no") return words;
  for (const Phrase& phrase : kPhrases)
    if (words == phrase.spelled) return std::string(phrase.canonical);
  for (const std::string_view verdict : {"yes", "no"})
    if (words.starts_with(std::string(verdict) + " , ") && is_harmless_comment(words, verdict))
      return std::string(verdict);
  return replace_and_by_commas(strip_article(text));
}

bool is_date(std::string_view phrase) { return phrase.starts_with("date "); }

bool is_score(std::string_view text) {
  const auto belongs = [](char c) { return is_digit(c) || c == ' ' || c == '-'; };
  return !text.empty() && is_digit(text.front()) && is_digit(text.back()) && text.find('-') != std::string_view::npos &&
         std::all_of(text.begin(), text.end(), belongs);
}

NodePointer parse_phrase(std::string_view text) {
  const std::string phrase = canonical_phrase(std::string(text));
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

NodePointer parse_reals_except(const std::vector<Token>& tokens) {
  size_t end = 0;
  std::string words;
  const auto is_name = [](const Token& token) {
    return token.kind == Token::Kind::kWord || token.kind == Token::Kind::kText;
  };
  while (end < tokens.size() && is_name(tokens[end])) words += tokens[end++].text + " ";
  for (const std::string_view phrase : {"all real numbers except ", "all reals except ", "All real numbers except "}) {
    if (words != phrase) continue;
    NodePointer excluded = parse_math({tokens.begin() + static_cast<std::ptrdiff_t>(end), tokens.end()});
    NodePointer set = std::make_unique<Node>(), result = std::make_unique<Node>(), reals = std::make_unique<Node>();
    set->kind = Node::Kind::kSet;
    if (excluded->kind == Node::Kind::kList)
      set->children = std::move(excluded->children);
    else
      set->children.push_back(std::move(excluded));
    reals->kind = Node::Kind::kReals;
    result->kind = Node::Kind::kDifference;
    result->children.push_back(std::move(reals));
    result->children.push_back(std::move(set));
    return result;
  }
  return nullptr;
}

std::optional<Choice> parse_choice(std::string_view answer) {
  for (const std::string_view word : {"Option ", "option ", "Choice ", "choice "})
    if (answer.starts_with(word)) answer.remove_prefix(word.size());
  const char first = answer.empty() ? ' ' : answer[0];
  if (first != '(' && first != '\\' && first != '$' && (first < 'A' || first > 'J')) return std::nullopt;
  constexpr size_t kMaxChoice = 2000;
  std::string text(trimmed(to_ascii(answer.substr(0, kMaxChoice))));
  for (const std::string_view wrapper : {"\\textbf{", "\\text{", "\\mathrm{", "\\mathbf{"}) {
    if (std::string_view(text).starts_with(wrapper)) {
      const size_t close = text.find('}');
      if (close == std::string::npos) return std::nullopt;
      text = text.substr(wrapper.size(), close - wrapper.size()) + " " + text.substr(close + 1);
    }
  }
  std::string_view rest = trimmed(text);  // after the letter
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
  // (A)(B) and A.5 are not choices
  if (!choice.content.empty() && !is_digit(choice.content[0]) && !is_letter(choice.content[0]) &&
      choice.content[0] != '\\' && choice.content[0] != '-')
    return std::nullopt;
  return choice;
}

std::optional<std::string> remove_indian_commas(std::string_view answer) {
  std::string digits;
  size_t group = 0, groups = 0;
  for (size_t i = 0; i < answer.size(); ++i) {
    const char c = answer[i];
    if (is_digit(c)) {
      digits += c;
      ++group;
      continue;
    }
    const bool fits = c == ',' && group > 0 && group <= 2 && (groups == 0 || group == 2);
    if (!fits) return std::nullopt;
    ++groups;
    group = 0;
  }
  if (groups < 2 || group != 3 || answer[0] == '0') return std::nullopt;
  return digits;
}

std::optional<std::string> decimal_comma_to_point(std::string_view answer) {
  const size_t comma = answer.find(',');
  if (comma == std::string_view::npos || answer.rfind(',') != comma) return std::nullopt;
  size_t begin = comma, end = comma + 1;
  while (begin > 0 && (is_digit(answer[begin - 1]) || answer[begin - 1] == '.' || answer[begin - 1] == ' ')) --begin;
  while (begin < comma && answer[begin] == ' ') ++begin;
  while (end < answer.size() && is_digit(answer[end])) ++end;
  const std::string_view before = answer.substr(0, begin), after = answer.substr(end);
  const auto is_sign = [](char c) {
    return std::string_view("+-$\\ ").find(c) != std::string_view::npos || (c & 0x80) != 0;
  };
  const auto is_part_of_formula = [](char c) {
    return is_digit(c) || std::string_view(".()[]=<>|").find(c) != std::string_view::npos;
  };
  const std::string whole = grouped_digits(answer.substr(begin, comma - begin));
  if (whole.empty() || end == comma + 1 || !std::all_of(before.begin(), before.end(), is_sign) ||
      std::any_of(after.begin(), after.end(), is_part_of_formula))
    return std::nullopt;
  const bool is_grouped = whole.size() < comma - begin;
  const bool groups_thousands = !is_grouped && end - comma - 1 == 3 && whole[0] != '0';
  if (groups_thousands) return std::nullopt;
  std::string result(before);
  result += whole;
  result += '.';
  result += answer.substr(comma + 1);
  return result;
}

}  // namespace keel::math
