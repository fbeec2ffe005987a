#include "libs/hftext/tokenizer/merge_table.h"

#include <algorithm>
#include <bit>
#include <queue>

#include "libs/hftext/tokenizer/token_table.h"

namespace keel::text {
namespace {

constexpr size_t kMaxQuadratic = 48;  // a scan over this many pairs is faster than a heap

}  // namespace

void MergeTable::reserve(size_t merges) { slots_.assign(std::bit_ceil(merges * 2 + 2), Slot{}); }

void MergeTable::add(int32_t left, int32_t right, Merge merge) {
  slots_[slot_of(key(left, right))] = {key(left, right), merge};
}

size_t MergeTable::slot_of(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  const uint64_t hash = key * kHashMultiplier;
  size_t slot = (hash ^ hash >> 32) & mask;
  while (slots_[slot].key != key && slots_[slot].key != UINT64_MAX) slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::apply(std::vector<int32_t>& symbols) const {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kMaxQuadratic) {
    apply_quadratic(symbols);
  } else {
    apply_heap(symbols);
  }
}

void MergeTable::apply_quadratic(std::vector<int32_t>& symbols) const {
  size_t count = symbols.size();
  Merge pairs[kMaxQuadratic];  // merge of symbols i and i + 1
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == kNoRank) break;
    symbols[best] = pairs[best].id;
    std::copy(symbols.data() + best + 2, symbols.data() + count, symbols.data() + best + 1);
    if (best + 2 < count) std::copy(pairs + best + 2, pairs + count - 1, pairs + best + 1);
    --count;
    if (best + 1 < count) pairs[best] = find(symbols[best], symbols[best + 1]);
    if (best > 0) pairs[best - 1] = find(symbols[best - 1], symbols[best]);
  }
  symbols.resize(count);
}

void MergeTable::apply_heap(std::vector<int32_t>& symbols) const {
  constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    int32_t id;
    uint32_t previous, next;
  };
  struct Candidate {
    uint32_t rank, index;
    int32_t id;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : index > other.index;
    }
  };
  const auto count = static_cast<uint32_t>(symbols.size());
  std::vector<Node> nodes(count);
  std::vector<Candidate> candidates;
  for (uint32_t i = 0; i < count; ++i) {
    nodes[i] = {symbols[i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
    if (i + 1 == count) continue;
    const Merge merge = find(symbols[i], symbols[i + 1]);
    if (merge.rank != kNoRank) candidates.push_back({merge.rank, i, merge.id});
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(std::greater<>{}, std::move(candidates));
  const auto consider = [&](uint32_t index) {
    if (index == kNone || nodes[index].next == kNone) return;
    const Merge merge = find(nodes[index].id, nodes[nodes[index].next].id);
    if (merge.rank != kNoRank) queue.push({merge.rank, index, merge.id});
  };
  constexpr int32_t kGone = -1;  // merged into the previous node
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Node& node = nodes[best.index];
    if (node.id == kGone || node.next == kNone) continue;
    const Merge merge = find(node.id, nodes[node.next].id);
    if (merge.rank != best.rank || merge.id != best.id) continue;  // stale: one of the two has changed
    Node& right = nodes[node.next];
    node.id = best.id;
    node.next = right.next;
    right.id = kGone;
    if (node.next != kNone) nodes[node.next].previous = best.index;
    consider(node.previous);
    consider(best.index);
  }
  symbols.clear();
  for (uint32_t index = 0; index != kNone; index = nodes[index].next) symbols.push_back(nodes[index].id);
}

}  // namespace keel::text
