#include "keel/rollout/stop_strings.h"

#include <algorithm>

#include "keel/core/error.h"

namespace keel {
namespace {

// Bytes added to the window, because the first tokens of a span may decode to fewer bytes than after other tokens.
constexpr size_t kMargin = 16;

size_t find_first(const std::string& text, const std::vector<std::string>& strings) {
  size_t first = std::string::npos;
  for (const std::string& string : strings) first = std::min(first, text.find(string));
  return first;
}

/// The text without special tokens that precedes a byte position of the text with special tokens.
std::string text_up_to(size_t position, const Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  const auto size_with_special = [&](size_t count) {
    return tokenizer.decode(tokens.first(count), /*skip_special=*/false).size();
  };
  size_t whole_tokens = tokens.size() - 1;  // that end at or before the position
  while (whole_tokens > 0 && size_with_special(whole_tokens) > position) --whole_tokens;
  const size_t bytes_of_next = whole_tokens > 0 ? position - size_with_special(whole_tokens) : position;
  const auto decode_plain = [&](size_t count) { return tokenizer.decode(tokens.first(count), /*skip_special=*/true); };
  return decode_plain(whole_tokens + 1).substr(0, decode_plain(whole_tokens).size() + bytes_of_next);
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  for (const std::string& string : strings_) {
    if (string.empty())
      fail(ExitCode::kBadConfiguration, "a stop string is empty, so it would end every completion. Remove it.");
    window_ = std::max(window_, string.size() + kMargin);
  }
}

std::optional<std::string> StopStrings::text_before(const Tokenizer& tokenizer, std::span<const int32_t> tokens) const {
  if (strings_.empty()) return std::nullopt;
  // Some tokens decode to no text, so the number of tokens doubles until their text fills the window.
  const auto found_at_end = [&](bool skip_special) {
    for (size_t count = window_;; count *= 2) {
      const std::string text = tokenizer.decode(tokens.last(std::min(count, tokens.size())), skip_special);
      if (text.size() >= window_ || count >= tokens.size()) return find_first(text, strings_) != std::string::npos;
    }
  };
  const auto find = [&](bool skip_special) {
    return found_at_end(skip_special) ? find_first(tokenizer.decode(tokens, skip_special), strings_)
                                      : std::string::npos;
  };
  const size_t plain = find(/*skip_special=*/true), with_special = find(/*skip_special=*/false);
  if (plain == std::string::npos && with_special == std::string::npos) return std::nullopt;
  const std::string text = with_special == std::string::npos ? tokenizer.decode(tokens, /*skip_special=*/true)
                                                             : text_up_to(with_special, tokenizer, tokens);
  return text.substr(0, std::min(plain, text.size()));
}

}  // namespace keel
