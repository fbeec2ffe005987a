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

/// A part of the text that the model turns into tokens on its own.
struct Piece {
  std::string_view text;
  bool at_start = false;         // its first character comes from the first character of the whole input
  bool is_continuation = false;  // from a text in front of it, so that no blank is put there
};

/// The pieces of a text, and the storage of those that are no part of it any more.
struct Pieces {
  RegexBudget& budget;
  std::vector<Piece> list;
  std::deque<std::string> storage;  // strings stay where they are
};

/// The "pre_tokenizer" of tokenizer.json: where a text is cut before the model sees it.
class PreTokenizer {
 public:
  /// Null gives one that leaves a text whole.
  static PreTokenizer from_json(const Json& pre_tokenizer, const std::string& place);

  /// Whether the last thing done is to write bytes as characters of GPT-2's alphabet. A model that knows bytes can then
  /// take the pieces as they are.
  bool ends_with_bytes() const;

  /// Cuts all pieces further. With `keep_bytes`, pieces stay bytes where ends_with_bytes(). No piece is empty.
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
  void add(const Component& fields);
  void add_byte_level(const Component& fields);
  void add_metaspace(const Component& fields);

  std::vector<Step> steps_;
  std::string place_;
};

}  // namespace keel::text
