#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace keel::text {

/// Byte trie from keys to numbers. All edges are in one hash table, so memory is linear in the bytes of all keys.
class Trie {
 public:
  static constexpr uint32_t kRoot = 0, kNoNode = UINT32_MAX;
  static constexpr int32_t kNoValue = -1;
  /// Callers must reject longer keys: a search may follow a key at every position. Known keys have a tenth of it.
  static constexpr size_t kMaxKey = 512;

  /// `key` has 1 to kMaxKey bytes and `value` is not negative. An existing key keeps its value.
  void insert(std::string_view key, int32_t value);
  /// The child of `node` for `byte`, or kNoNode.
  uint32_t next(uint32_t node, unsigned char byte) const;
  /// The value of the key that ends at `node`, or kNoValue.
  int32_t value(uint32_t node) const { return values_[node]; }
  /// True if a key begins with this byte; a fast filter while scanning a text.
  bool can_start_with(unsigned char byte) const { return first_bytes_[byte]; }

 private:
  struct Edge {
    uint64_t from = UINT64_MAX;  // node * 256 + byte; all ones if free
    uint32_t to = kNoNode;
  };
  size_t slot_of(uint64_t from) const;
  void grow();

  std::vector<int32_t> values_ = {kNoValue};
  std::vector<Edge> edges_ = std::vector<Edge>(16);  // open addressing, a power of two
  bool first_bytes_[256] = {};
};

}  // namespace keel::text
