#include "keel/rollout/stop_strings.h"

#include <algorithm>

#include "keel/core/error.h"

namespace keel {
namespace {

// Tokens may stand for nothing, and the first ones of a run for less than they would behind others.
constexpr size_t kMargin = 16;

size_t first_of(const std::string& text, const std::vector<std::string>& strings) {
  size_t first = std::string::npos;
  for (const std::string& string : strings) first = std::min(first, text.find(string));
  return first;
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
  const auto decoded = [&](size_t count) {
    return tokenizer.decode(tokens.last(std::min(count, tokens.size())), /*skip_special=*/true);
  };
  if (first_of(decoded(window_), strings_) == std::string::npos) return std::nullopt;
  std::string text = decoded(tokens.size());
  const size_t first = first_of(text, strings_);
  if (first == std::string::npos) return std::nullopt;
  return text.substr(0, first);
}

}  // namespace keel
