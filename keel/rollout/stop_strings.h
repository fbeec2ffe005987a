#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// Strings that end a completion. They are searched in its text with and without special tokens ("<|im_end|>"). The
/// token that completes a string is the completion's last one; the completion's text ends before the string and has no
/// special tokens. It owns the strings.
class StopStrings {
 public:
  /// No string may be empty.
  explicit StopStrings(std::vector<std::string> strings);

  /// Returns the text before the first stop string, if there is one. Call it after every token: only the end of a long
  /// completion is searched.
  std::optional<std::string> text_before(const Tokenizer& tokenizer, std::span<const int32_t> tokens) const;

 private:
  std::vector<std::string> strings_;
  size_t window_ = 0;  // bytes at the end that contain a string that was just completed
};

}  // namespace keel
