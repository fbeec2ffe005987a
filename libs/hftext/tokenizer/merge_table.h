#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace keel::text {

/// Which two tokens merge into which, and in what order: a hash table on the pair of ids.
class MergeTable {
 public:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  struct Merge {
    uint32_t rank = kNoRank;  // lower merges first
    int32_t id = -1;          // of the merged token
  };

  void reserve(size_t merges);
  /// A pair that is there already gets the new rank.
  void add(int32_t left, int32_t right, Merge merge);
  Merge find(int32_t left, int32_t right) const { return slots_[slot_of(key(left, right))].merge; }

  /// Merges the pair of lowest rank, the leftmost of those, until none is left.
  void apply(std::vector<int32_t>& symbols) const;

 private:
  struct Slot {
    uint64_t key = UINT64_MAX;
    Merge merge;
  };
  static uint64_t key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const;
  void apply_to_few(std::vector<int32_t>& symbols) const;
  void apply_to_many(std::vector<int32_t>& symbols) const;

  std::vector<Slot> slots_ = std::vector<Slot>(1);  // open addressing, a power of two, never full
};

}  // namespace keel::text
