#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace keel::text {

/// BPE merges as a hash table from a pair of ids to the merged id and its rank.
class MergeTable {
 public:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  struct Merge {
    uint32_t rank = kNoRank;  // lower merges first
    int32_t id = -1;          // of the merged token
  };

  void reserve(size_t merges);
  /// Overwrites an existing pair.
  void add(int32_t left, int32_t right, Merge merge);
  Merge find(int32_t left, int32_t right) const { return slots_[slot_of(key(left, right))].merge; }

  /// Repeatedly merges the leftmost pair of the lowest rank.
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
  void apply_quadratic(std::vector<int32_t>& symbols) const;
  void apply_heap(std::vector<int32_t>& symbols) const;

  std::vector<Slot> slots_ = std::vector<Slot>(1);  // open addressing, a power of two, never full
};

}  // namespace keel::text
