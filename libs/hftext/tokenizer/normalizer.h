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

/// The "normalizer" of tokenizer.json: what is done to a text before anything else is.
class Normalizer {
 public:
  /// Null gives one that changes nothing.
  static Normalizer from_json(const Json& normalizer, const std::string& place);

  bool empty() const { return steps_.empty(); }

  struct Result {
    std::string text;
    size_t front = 0;   // bytes at the beginning that come from the first character of the input
    size_t given = 0;   // bytes of the input
    std::string marks;  // for each byte of `text` whether it is untrusted (1) or not (0); none when nothing is
    RegexBudget* budget = nullptr;

    ByteRanges untrusted() const;
  };
  /// `text` is valid UTF-8, and so is what it becomes. What comes from an `untrusted` byte is untrusted. Nothing is put
  /// in front of a text that goes on from another.
  Result apply(std::string_view text, RegexBudget& budget, std::span<const ByteRange> untrusted = {},
               bool is_continuation = false) const;

 private:
  struct Lowercase {};
  struct StripAccents {};
  struct Bytes {};  // every byte becomes its character of GPT-2's alphabet
  struct Nmt {};    // controls removed, odd spaces become spaces
  struct Strip {
    bool left = true, right = true;
  };
  struct Replace {
    Pattern pattern;
    std::string content, place;
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
  void add(const Component& fields);

  std::vector<Step> steps_;
  std::string place_;
};

}  // namespace keel::text
