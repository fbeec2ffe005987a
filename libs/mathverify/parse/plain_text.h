#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libs/mathverify/parse/parser.h"

namespace keel::math {

/// The answer as words and signs with single spaces: what two answers are compared by that are not mathematics. Layout
/// and \text are gone, words of three or more letters are in lower case.
std::string text_signature(const std::vector<Token>& tokens);

/// Phrases with a meaning of their own: "no solution" is the empty set, "all real numbers" the real line.
NodePointer parse_phrase(std::string_view signature);

/// "all real numbers except 2" as R without {2}.
NodePointer parse_exception(const std::vector<Token>& tokens);

/// A phrase for another with the same meaning ("infinitely many solutions" is "infinitely many"), else itself.
std::string canonical_phrase(const std::string& signature);

/// Whether a canonical phrase is a day, as January 5.
bool is_date(std::string_view phrase);

/// "(B) 12" in two parts, "B" and "12"; the second is empty for "(B)", "B." or "B)".
struct Choice {
  std::string letter{}, content{};
};
std::optional<Choice> parse_choice(std::string_view answer);

/// What the last sentence that states a number may say, best first: its last formula, what its subject is said to be,
/// and, if asked for, its last number. Nothing where a word could turn its meaning round.
std::vector<std::string> answers_in_sentence(std::string_view line, bool with_last_number);

/// "2-1", "21-15-9": a result of a game, or a subtraction that nobody worked out.
bool is_score(std::string_view signature);

/// "2,74" as 2.74, as much of the world writes it; nothing where the comma may group thousands.
std::optional<std::string> with_decimal_point(std::string_view answer);

/// "1,00,000" as 100000; nothing for other lists of digits.
std::optional<std::string> without_indian_commas(std::string_view answer);

}  // namespace keel::math
