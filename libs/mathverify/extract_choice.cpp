#include "libs/mathverify/extract_choice.h"

#include <algorithm>
#include <array>
#include <string>

#include "libs/mathverify/parse/characters.h"

namespace keel {
namespace {

using namespace math;

bool is_word(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '\'' || (c & 0x80); }

/// Strips formatting: \text{B}, \boxed{B}, **B**, `B`, $B$.
std::string strip_latex_and_bold(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      while (i + 1 < text.size() && is_letter(text[i + 1])) ++i;
      plain += ' ';
    } else if (std::string_view("{}*`$~").find(text[i]) == std::string_view::npos) {
      plain += text[i];
    }
  }
  return plain;
}

/// Reads an answer word by word.
class ChoiceReader {
 public:
  explicit ChoiceReader(std::string_view text) : rest_(text) {}

  /// Takes the characters before the next word.
  std::string_view take_marks() { return take(std::find_if(rest_.begin(), rest_.end(), is_word)); }
  /// Takes the next word in lower case; empty at the end.
  std::string take_word() {
    std::string result(take(std::find_if_not(rest_.begin(), rest_.end(), is_word)));
    for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    return result;
  }
  bool starts_with(char c) const { return rest_.starts_with(c); }

 private:
  std::string_view take(std::string_view::iterator end) {
    const std::string_view part = rest_.substr(0, static_cast<size_t>(end - rest_.begin()));
    rest_.remove_prefix(part.size());
    return part;
  }
  std::string_view rest_;
};

bool is_single_letter(const std::string& word) { return word.size() == 1 && is_letter(word[0]); }

constexpr std::array<std::string_view, 30> kLeadWords = {
    "so",     "thus",   "therefore", "hence",  "the",    "my",    "final",   "correct", "right", "best",
    "answer", "option", "choice",    "letter", "is",     "would", "should",  "must",    "be",    "i",
    "it",     "it's",   "choose",    "pick",   "select", "think", "believe", "say",     "guess", "that"};
constexpr std::array<std::string_view, 10> kTrailWords = {"is",     "the",    "correct", "right", "best",
                                                          "answer", "option", "choice",  "one",   "letter"};

/// True if the text after a letter does not change that it is the chosen one.
bool is_chosen_letter(ChoiceReader rest, char letter) {
  const std::string_view marks = rest.take_marks();
  std::string word = rest.take_word();
  if (marks.find_first_of("/&+=^<>|#@") != std::string_view::npos) return false;  // "A/B", "C++", "x = 5"
  if (word.empty()) return true;
  if (marks[0] == '-' || marks[0] == '(') return false;                                     // "A-level", "f(x)"
  const bool is_label = std::string_view(").:]").find(marks[0]) != std::string_view::npos;  // "B) 12"
  if (word == "and" || word == "or") {
    rest.take_marks();
    return is_label && !is_single_letter(rest.take_word());
  }
  if (is_single_letter(word) && word[0] != letter)  // "A, B", but "B. A cat"
    return is_label && (word == "a" || word == "i") && rest.starts_with(' ');
  if (marks != " ") return true;  // "B. Paris", "B, Paris", "B (Paris)"
  if (word == "because" || word == "since") return true;
  for (; is_one_of(word, kTrailWords); word = rest.take_word()) rest.take_marks();  // "B is the correct answer"
  return word.empty();
}

}  // namespace

std::optional<char> extract_choice(std::string_view answer) {
  const std::string plain = strip_latex_and_bold(answer);
  ChoiceReader reader(plain);
  reader.take_marks();
  std::string word = reader.take_word();
  while (is_one_of(word, kLeadWords)) {
    ChoiceReader ahead = reader;
    ahead.take_marks();
    const std::string next = ahead.take_word();
    if (word == "i" && !is_one_of(next, kLeadWords)) break;  // "i" is the choice I, not the pronoun
    reader = ahead;
    word = next;
  }
  if (!is_single_letter(word) || !is_chosen_letter(reader, word[0])) return std::nullopt;
  return static_cast<char>(word[0] & ~0x20);
}

}  // namespace keel
