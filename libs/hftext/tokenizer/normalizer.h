#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "keel/core/json.h"
#include "libs/hftext/characters/traced_text.h"
#include "libs/hftext/characters/unicode.h"
#include "libs/hftext/tokenizer/pattern.h"
#include "libs/hftext/tokenizer/strict_object.h"

namespace keel::text {

/// The "normalizer" of tokenizer.json, the first step of encoding.
class Normalizer {
 public:
  /// Null means no normalization.
  static Normalizer from_json(const Json& normalizer, const std::string& location);

  bool empty() const { return steps_.empty(); }

  struct Result {
    std::string text;
    size_t first_size = 0;       // leading bytes that come from the first input character
    size_t input_size = 0;       // bytes of the input
    std::string untrusted_mask;  // per byte of `text`: \1 if untrusted, else \0; empty if all is trusted
    RegexBudget* budget = nullptr;

    ByteRanges untrusted() const;
  };
  /// `text` is valid UTF-8, and so is the result. Output from `untrusted` bytes is untrusted. Prepend
  /// steps are skipped if `is_continuation`.
  Result apply(std::string_view text, RegexBudget& budget, std::span<const ByteRange> untrusted = {},
               bool is_continuation = false) const;

 private:
  struct Lowercase {};
  struct StripAccents {};
  struct Bytes {};  // converts to GPT-2's byte alphabet
  struct Nmt {};    // removes control characters and unifies spaces
  struct Strip {
    bool left = true, right = true;
  };
  struct Replace {
    Pattern pattern;
    std::string content, location;
  };
  struct Prepend {
    std::string content;
  };
  using Step = std::variant<NormalForm, Lowercase, StripAccents, Bytes, Nmt, Strip, Replace, Prepend>;

  static void run(NormalForm form, Result& result);
  static void run(Lowercase, Result& result);
  static void run(StripAccents, Result& result);
  static void run(Bytes, Result& result);
  static void run(Nmt, Result& result);
  static void run(const Strip& strip, Result& result);
  static void run(const Replace& replace, Result& result);
  static void run(const Prepend& prepend, Result& result);
  void add(const StrictObject& fields);

  std::vector<Step> steps_;
  std::string location_;
};

}  // namespace keel::text
