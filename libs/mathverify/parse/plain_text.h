#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libs/mathverify/parse/parser.h"

namespace keel::math {

/// Normalizes an answer for comparison as text: words and signs with single spaces, without layout and \text. Words of
/// three or more letters become lower case.
std::string normalize_text(const std::vector<Token>& tokens);

/// Parses fixed phrases: "no solution" is the empty set, "all real numbers" the real line. Returns nullptr for others.
NodePointer parse_phrase(std::string_view text);

/// Parses "all real numbers except 2" as R without {2}; nullptr for other texts.
NodePointer parse_reals_except(const std::vector<Token>& tokens);

/// Maps synonymous phrases to one ("infinitely many solutions" to "infinitely many"); returns others unchanged.
std::string canonical_phrase(const std::string& text);

/// True if a canonical phrase is a date such as January 5.
bool is_date(std::string_view phrase);

/// A choice such as "(B) 12": letter "B" and content "12", which is empty for "(B)", "B." or "B)".
struct Choice {
  std::string letter{}, content{};
};
std::optional<Choice> parse_choice(std::string_view answer);

/// Candidate answers in the last sentence with a number, best first: its last formula, the text after its verb and,
/// with `with_last_number`, its last number. Empty if a word could negate the sentence.
std::vector<std::string> extract_sentence_answers(std::string_view line, bool with_last_number);

/// True for "2-1" and "21-15-9": a game score, or an unevaluated subtraction.
bool is_score(std::string_view text);

/// Converts the decimal comma of "2,74"; nullopt if the comma may group thousands.
std::optional<std::string> decimal_comma_to_point(std::string_view answer);

/// Converts "1,00,000" to 100000; nullopt for other lists of digits.
std::optional<std::string> remove_indian_commas(std::string_view answer);

}  // namespace keel::math
