#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "keel/core/json.h"
#include "libs/hftext/tokenizer/pattern.h"
#include "libs/hftext/tokenizer/strict_object.h"

namespace keel::text {

/// A part of the text that the model tokenizes separately.
struct Piece {
  std::string_view text;
  bool at_start = false;         // starts with the first character of the whole input
  bool is_continuation = false;  // continues an earlier text, so no prefix space is added
};

/// The pieces of a text, and storage for pieces that are not substrings of it.
struct Pieces {
  RegexBudget& budget;
  std::vector<Piece> list;
  std::deque<std::string> storage;  // a deque keeps references valid
};

/// The "pre_tokenizer" of tokenizer.json: splits a text before the model tokenizes it.
class PreTokenizer {
 public:
  /// Null means no splitting.
  static PreTokenizer from_json(const Json& pre_tokenizer, const std::string& location);

  /// True if the last step converts to GPT-2's byte alphabet. apply() can then skip it for a model that takes
  /// raw bytes.
  bool ends_with_byte_level() const;

  /// Splits all pieces further; no piece is empty. `keep_bytes` skips a final conversion to the byte alphabet.
  void apply(Pieces& pieces, bool keep_bytes) const;

 private:
  struct Split {
    Pattern pattern;
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;
  };
  struct PrefixSpace {};  // ByteLevel's add_prefix_space
  struct Bytes {};        // ByteLevel's alphabet
  struct Metaspace {
    std::string replacement;
    enum class Prepend { kAlways, kFirst, kNever } prepend = Prepend::kAlways;
  };
  struct FixedLength {
    size_t characters = 1;
  };
  using Step = std::variant<Split, PrefixSpace, Bytes, Metaspace, FixedLength>;

  static void run(const Split& split, Pieces& pieces);
  static void run(PrefixSpace, Pieces& pieces);
  static void run(Bytes, Pieces& pieces);
  static void run(const Metaspace& metaspace, Pieces& pieces);
  static void run(const FixedLength& fixed, Pieces& pieces);
  void add(const StrictObject& fields);
  void add_byte_level(const StrictObject& fields);
  void add_metaspace(const StrictObject& fields);

  std::vector<Step> steps_;
  std::string location_;
};

}  // namespace keel::text
