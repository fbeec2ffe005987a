#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace keel::text {

/// Keys over bytes, each with a number, walked byte by byte. All edges lie in one hash table, so that its size is a
/// small multiple of the keys' bytes, whatever the keys are.
class Trie {
 public:
  static constexpr uint32_t kRoot = 0, kNoNode = UINT32_MAX;
  static constexpr int32_t kNoValue = -1;
  /// Longer keys are to be refused: from every place of a text, a search may follow a key to its end. The longest in
  /// use have a tenth of it.
  static constexpr size_t kMaxKey = 512;

  /// `key` has 1 to kMaxKey bytes, `value` is not negative; a key that is there keeps its value.
  void insert(std::string_view key, int32_t value);
  /// The node one byte further, kNoNode when no key goes on there.
  uint32_t next(uint32_t node, unsigned char byte) const;
  /// The number of the key that ends at `node`, else kNoValue.
  int32_t value(uint32_t node) const { return values_[node]; }
  /// Whether some key begins with this byte: a quick answer while searching a text for keys.
  bool starts(unsigned char byte) const { return starts_[byte]; }

 private:
  struct Edge {
    uint64_t from = UINT64_MAX;  // node * 256 + byte; all ones where free
    uint32_t to = kNoNode;
  };
  size_t slot_of(uint64_t from) const;
  void grow();

  std::vector<int32_t> values_ = {kNoValue};
  std::vector<Edge> edges_ = std::vector<Edge>(16);  // open addressing, a power of two
  bool starts_[256] = {};
};

}  // namespace keel::text
