#include "libs/hftext/tokenizer/token_table.h"

#include <bit>
#include <cstring>

namespace keel::text {
namespace {

uint64_t mix(uint64_t state, uint64_t word) {
  state = (state ^ word) * kHashMultiplier;
  return state ^ state >> 32;
}

}  // namespace

uint64_t hash_text(std::string_view text) {
  uint64_t state = text.size() * kHashMultiplier;
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    state = mix(state, word);
  }
  uint64_t word = 0;
  if (at < text.size()) std::memcpy(&word, text.data() + at, text.size() - at);
  return mix(state, word);
}

void TokenTable::reserve(size_t tokens) {
  tokens_.reserve(tokens);
  rehash(std::bit_ceil(tokens * 2 + 2));
}

bool TokenTable::add(std::string token) {
  if (slots_.size() < tokens_.size() * 2 + 2) rehash(std::bit_ceil(tokens_.size() * 4 + 4));
  int32_t& slot = slots_[slot_of(token)];
  if (slot != kNone) return false;
  slot = size();
  tokens_.push_back(std::move(token));
  return true;
}

int32_t TokenTable::find(std::string_view token) const { return slots_.empty() ? kNone : slots_[slot_of(token)]; }

size_t TokenTable::slot_of(std::string_view token) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash_text(token) & mask;
  while (slots_[slot] != kNone && tokens_[static_cast<size_t>(slots_[slot])] != token) slot = (slot + 1) & mask;
  return slot;
}

void TokenTable::rehash(size_t slots) {
  if (slots <= slots_.size()) return;
  slots_.assign(slots, kNone);
  for (int32_t id = 0; id < size(); ++id) slots_[slot_of(tokens_[static_cast<size_t>(id)])] = id;
}

}  // namespace keel::text
