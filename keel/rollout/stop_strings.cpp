#include "keel/rollout/stop_strings.h"

#include <algorithm>

#include "keel/core/error.h"

namespace keel {
namespace {

// The first tokens of a run may stand for less than they would behind others.
constexpr size_t kMargin = 16;

size_t first_of(const std::string& text, const std::vector<std::string>& strings) {
  size_t first = std::string::npos;
  for (const std::string& string : strings) first = std::min(first, text.find(string));
  return first;
}

/// What the tokens before a place in their text with special tokens spelled out stand for, without those.
std::string text_up_to(size_t place, const Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  const auto spelled_size = [&](size_t count) { return tokenizer.decode(tokens.first(count), false).size(); };
  size_t before = tokens.size() - 1;
  while (before > 0 && spelled_size(before) > place) --before;
  const size_t rest = before > 0 ? place - spelled_size(before) : place;
  const size_t size = tokenizer.decode(tokens.first(before), true).size();
  return tokenizer.decode(tokens.first(before + 1), true).substr(0, size + rest);
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  for (const std::string& string : strings_) {
    if (string.empty())
      fail(ExitCode::kBadConfiguration, "a stop string is empty, which would end every completion; remove it");
    window_ = std::max(window_, string.size() + kMargin);
  }
}

std::optional<std::string> StopStrings::text_before(const Tokenizer& tokenizer, std::span<const int32_t> tokens) const {
  if (strings_.empty()) return std::nullopt;
  // Tokens may stand for nothing, so that it takes many to see enough.
  const auto at_end = [&](bool skip_special) {
    for (size_t count = window_;; count *= 2) {
      const std::string text = tokenizer.decode(tokens.last(std::min(count, tokens.size())), skip_special);
      if (text.size() >= window_ || count >= tokens.size()) return first_of(text, strings_) != std::string::npos;
    }
  };
  const auto first_in = [&](bool skip_special) {
    return at_end(skip_special) ? first_of(tokenizer.decode(tokens, skip_special), strings_) : std::string::npos;
  };
  const size_t plain = first_in(true), spelled = first_in(false);
  if (plain == std::string::npos && spelled == std::string::npos) return std::nullopt;
  const std::string text =
      spelled == std::string::npos ? tokenizer.decode(tokens, true) : text_up_to(spelled, tokenizer, tokens);
  return text.substr(0, std::min(plain, text.size()));
}

}  // namespace keel
