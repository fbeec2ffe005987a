#include "libs/hftext/tokenizer/trie.h"

#include "libs/hftext/tokenizer/token_table.h"

namespace keel::text {

void Trie::insert(std::string_view key, int32_t value) {
  first_bytes_[static_cast<unsigned char>(key[0])] = true;
  uint32_t node = kRoot;
  for (const char c : key) {
    const uint64_t from = uint64_t{node} * 256 + static_cast<unsigned char>(c);
    size_t slot = slot_of(from);
    if (edges_[slot].to == kNoNode) {
      if (values_.size() * 2 > edges_.size()) {
        grow();
        slot = slot_of(from);
      }
      edges_[slot] = {from, static_cast<uint32_t>(values_.size())};
      values_.push_back(kNoValue);
    }
    node = edges_[slot].to;
  }
  if (values_[node] == kNoValue) values_[node] = value;
}

uint32_t Trie::next(uint32_t node, unsigned char byte) const { return edges_[slot_of(uint64_t{node} * 256 + byte)].to; }

size_t Trie::slot_of(uint64_t from) const {
  const size_t mask = edges_.size() - 1;
  const uint64_t hash = from * kHashMultiplier;
  size_t slot = (hash ^ hash >> 32) & mask;
  while (edges_[slot].to != kNoNode && edges_[slot].from != from) slot = (slot + 1) & mask;
  return slot;
}

void Trie::grow() {
  std::vector<Edge> old(edges_.size() * 2);
  old.swap(edges_);
  for (const Edge& edge : old) {
    if (edge.to != kNoNode) edges_[slot_of(edge.from)] = edge;
  }
}

}  // namespace keel::text
