#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "libs/hftext/tokenizer/token_table.h"

namespace keel::text {

/// Cache of the tokens of recent short words. A newer word with the same hash replaces an older one. One thread uses
/// the cache at a time; others bypass it.
class WordCache {
 public:
  static constexpr size_t kMaxBytes = 30, kMaxIds = 7;

  /// Locks the cache; the lock is not owned if another thread holds it.
  std::unique_lock<std::mutex> try_lock() { return {mutex_, std::try_to_lock}; }

  /// Appends the word's tokens; false if they are not cached. Call get() and put() only with the lock.
  bool get(std::string_view word, std::vector<int32_t>& ids) const {
    if (slots_ == nullptr || word.size() > kMaxBytes) return false;
    const Slot& slot = slots_[hash_text(word) % kSlots];
    if (slot.size != word.size() || std::memcmp(slot.word, word.data(), word.size()) != 0) return false;
    ids.insert(ids.end(), slot.ids, slot.ids + slot.count);
    return true;
  }

  void put(std::string_view word, const int32_t* ids, size_t count) {
    if (word.empty() || word.size() > kMaxBytes || count > kMaxIds) return;
    if (slots_ == nullptr) {
      if (++words_seen_ < kMinWords) return;
      slots_ = std::make_unique<Slot[]>(kSlots);
    }
    Slot& slot = slots_[hash_text(word) % kSlots];
    slot.size = static_cast<uint8_t>(word.size());
    slot.count = static_cast<uint8_t>(count);
    std::memcpy(slot.word, word.data(), word.size());
    std::memcpy(slot.ids, ids, count * sizeof(int32_t));
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 15;
  struct Slot {
    uint8_t size = 0, count = 0;
    char word[kMaxBytes];
    int32_t ids[kMaxIds];
  };
  std::mutex mutex_;
  static constexpr size_t kMinWords = 500;
  size_t words_seen_ = 0;
  std::unique_ptr<Slot[]> slots_;  // 2 MB, allocated after kMinWords words
};

}  // namespace keel::text
