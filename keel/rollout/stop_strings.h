#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// Strings that end a completion, in its text or in that with special tokens spelled out ("<|im_end|>"). The token that
/// completes one of them is the completion's last; its text is what stands before the string, without special tokens.
/// It owns the strings.
class StopStrings {
 public:
  /// None may be empty.
  explicit StopStrings(std::vector<std::string> strings);

  /// The text before the first string in what the tokens stand for; nothing where there is none. Asked after every
  /// token, since only the ends of long completions are looked at.
  std::optional<std::string> text_before(const Tokenizer& tokenizer, std::span<const int32_t> tokens) const;

 private:
  std::vector<std::string> strings_;
  size_t window_ = 0;  // bytes at the end in which a string that has just been completed lies
};

}  // namespace keel
