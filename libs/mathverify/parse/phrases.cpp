// Converts phrases to signs: "x is at least 5", "5 out of 6", "101 in base 2", "where k is an integer".

#include <algorithm>
#include <cctype>
#include <optional>

#include "libs/mathverify/parse/words.h"

namespace keel::math {
namespace {

using Kind = Token::Kind;

/// Splits \text{ is an integer} into separate lower-case words.
std::vector<Token> split_text_tokens(const std::vector<Token>& tokens) {
  std::vector<Token> result;
  for (const Token& token : tokens) {
    if (token.kind != Kind::kText && token.kind != Kind::kWord) {
      result.push_back(token);
      continue;
    }
    Token word = token;
    word.kind = Kind::kWord;
    word.text.clear();
    for (const char c : token.text + " ") {
      if (c != ' ' && c != '~') {
        word.text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      } else if (!word.text.empty()) {
        if (word.text.size() == 1) word.kind = Kind::kLetter;
        result.push_back(word);
        word.kind = Kind::kWord;
        word.text.clear();
      }
    }
  }
  return result;
}

/// Number of tokens of a phrase at `at`; 0 if it is not there.
size_t phrase_at(const std::vector<Token>& tokens, size_t at, std::string_view phrase) {
  size_t count = 0;
  while (!phrase.empty()) {
    const size_t space = std::min(phrase.find(' '), phrase.size());
    if (at + count >= tokens.size() || tokens[at + count].text != phrase.substr(0, space)) return 0;
    phrase.remove_prefix(std::min(space + 1, phrase.size()));
    ++count;
  }
  return count;
}

std::vector<Token> replace_range(std::vector<Token> tokens, size_t at, size_t count, std::string_view ascii) {
  std::vector<Token> replacement = tokenize(ascii);
  replacement.pop_back();
  const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(at);
  tokens.insert(tokens.erase(begin, begin + static_cast<std::ptrdiff_t>(count)), replacement.begin(),
                replacement.end());
  return tokens;
}

/// Converts "x is greater than 3" to x > 3.
std::optional<std::vector<Token>> replace_comparison(const std::vector<Token>& tokens) {
  static constexpr std::pair<std::string_view, std::string_view> kSigns[] = {{"is greater than or equal to", "\\ge"},
                                                                             {"is less than or equal to", "\\le"},
                                                                             {"is strictly greater than", ">"},
                                                                             {"is strictly less than", "<"},
                                                                             {"is greater than", ">"},
                                                                             {"is larger than", ">"},
                                                                             {"is more than", ">"},
                                                                             {"is less than", "<"},
                                                                             {"is smaller than", "<"},
                                                                             {"is at least", "\\ge"},
                                                                             {"is at most", "\\le"},
                                                                             {"is no less than", "\\ge"},
                                                                             {"is no more than", "\\le"},
                                                                             {"must be greater than", ">"},
                                                                             {"must be less than", "<"},
                                                                             {"must be at least", "\\ge"},
                                                                             {"must be at most", "\\le"},
                                                                             {"exceeds", ">"}};
  if (tokens[0].kind != Kind::kLetter) return std::nullopt;
  for (const auto& [phrase, sign] : kSigns)
    if (const size_t count = phrase_at(tokens, 1, phrase)) return replace_range(tokens, 1, count, sign);
  return std::nullopt;
}

/// Converts "5 out of 6" and "1 in 6" to fractions; "5 in" alone means inches.
std::optional<std::vector<Token>> replace_chance(const std::vector<Token>& tokens) {
  const bool is_in = tokens.size() == 4 && tokens[1].text == "in";
  const bool is_out = tokens.size() == 5 && tokens[1].text == "out" && tokens[2].text == "of";
  if (!is_in && !is_out) return std::nullopt;
  const Token &part = tokens[0], &total = tokens[tokens.size() - 2];
  const auto is_count = [](const Token& token) { return token.is_plain_integer || token.is_spelled; };
  if (!is_count(part) || !is_count(total) || total.value.sign() <= 0 || part.value > total.value) return std::nullopt;
  return replace_range(tokens, 1, tokens.size() - 3, "/");
}

/// Converts "101 base 2", "101 in base 2" and "101 (base two)" to 101_2.
std::optional<std::vector<Token>> replace_base(const std::vector<Token>& tokens) {
  if (!tokens[0].is_plain_integer) return std::nullopt;
  size_t at = 1;
  const bool bracketed = tokens[at].is("(");
  at += bracketed || tokens[at].text == "in";
  if (at + 2 >= tokens.size() || tokens[at].text != "base" || tokens[at + 1].kind != Kind::kNumber) return std::nullopt;
  const size_t end_index = at + 2 + (bracketed && tokens[at + 2].is(")") ? 1 : 0);
  if (end_index + 1 != tokens.size() || (bracketed && !tokens[at + 2].is(")"))) return std::nullopt;
  std::vector<Token> result = tokenize(tokens[0].text + "_{" + tokens[at + 1].value.to_string() + "}");
  return result.size() == 2 && result[0].is_based ? std::optional(result) : std::nullopt;
}

/// Converts ", where k is an integer", ", k in Z" and "for any integer k" to a set membership after a comma.
std::optional<std::vector<Token>> replace_integer_remark(const std::vector<Token>& tokens) {
  static constexpr std::string_view kAfterLetter[] = {"is an integer", "is any integer", "in Z", "in N"};
  static constexpr std::string_view kBeforeLetter[] = {"for any integer", "for some integer", "for all integers",
                                                       "for integer", "for every integer"};
  const auto condition = [&](size_t start, const Token& letter, std::string_view set) {
    const bool has_comma = tokens[start - 1].is(",");
    return replace_range(tokens, start, tokens.size() - 1 - start,
                         std::string(has_comma ? "" : ",") + letter.text + "\\in\\mathbb{" + std::string(set) + "}");
  };
  for (size_t at = 2; at + 1 < tokens.size(); ++at) {
    if (tokens[at].kind == Kind::kLetter)
      for (const std::string_view phrase : kAfterLetter) {
        const size_t count = phrase_at(tokens, at + 1, phrase);
        const bool is_opened = tokens[at - 1].text == "where" || tokens[at - 1].text == "with" ||
                               tokens[at - 1].text == "for" || tokens[at - 1].is(",");
        if (count == 0 || at + count + 2 != tokens.size() || !is_opened) continue;
        return condition(tokens[at - 1].is(",") ? at : at - 1, tokens[at], phrase == "in N" ? "N" : "Z");
      }
    for (const std::string_view phrase : kBeforeLetter)
      if (const size_t count = phrase_at(tokens, at, phrase);
          count > 0 && at + count + 2 == tokens.size() && tokens[at + count].kind == Kind::kLetter)
        return condition(at, tokens[at + count], "Z");
  }
  return std::nullopt;
}

}  // namespace

std::vector<Token> replace_phrases(std::vector<Token> tokens) {
  constexpr size_t kMaxTokens = 200;
  const auto is_word = [](const Token& token) {
    return token.kind == Kind::kWord || token.kind == Kind::kText || token.is_command("in");
  };
  if (tokens.size() < 3 || tokens.size() > kMaxTokens || std::none_of(tokens.begin(), tokens.end(), is_word))
    return tokens;
  const std::vector<Token> words = parse_number_words(split_text_tokens(tokens));  // \text{base five}
  for (const auto rule : {replace_comparison, replace_chance, replace_base, replace_integer_remark})
    if (std::optional<std::vector<Token>> result = rule(words)) return *result;
  return tokens;
}

}  // namespace keel::math
