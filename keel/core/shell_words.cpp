#include "keel/core/shell_words.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace keel {

std::string shell_word(const std::string& text) {
  const auto is_safe = [](unsigned char c) { return std::isalnum(c) || c > 0x7F || std::strchr("/._-+=,:@%", c); };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_safe)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::optional<std::vector<std::string>> shell_words(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;  // the open quote, or 0
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && c == ' ') {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    const bool escapes = c == '\\' && i + 1 < text.size() &&
                         (quote == 0 || (quote == '"' && (text[i + 1] == '"' || text[i + 1] == '\\')));
    if (escapes)
      words.back() += text[++i];
    else if (c == quote)
      quote = 0;
    else if (quote == 0 && (c == '\'' || c == '"'))
      quote = c;
    else
      words.back() += c;
  }
  return quote == 0 ? std::optional(std::move(words)) : std::nullopt;
}

}  // namespace keel
