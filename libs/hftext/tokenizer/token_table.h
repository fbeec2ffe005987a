#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace keel::text {

/// 2^64 / golden ratio; multiplying by it spreads keys over a hash table.
inline constexpr uint64_t kHashMultiplier = 0x9E3779B97F4A7C15;

/// A fast hash of short strings; stable only within one process.
uint64_t hash_text(std::string_view text);

/// Maps tokens to ids and back. Open addressing stores each token once, so large vocabularies load in milliseconds.
class TokenTable {
 public:
  static constexpr int32_t kNone = -1;

  void reserve(size_t tokens);
  /// Gives `token` the next id; false if it already exists.
  bool add(std::string token);
  int32_t find(std::string_view token) const;
  const std::string& operator[](int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  bool contains(int64_t id) const { return id >= 0 && id < size(); }
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }

 private:
  size_t slot_of(std::string_view token) const;
  void rehash(size_t slots);

  std::vector<std::string> tokens_;
  std::vector<int32_t> slots_;  // ids, kNone if free; the size is a power of two
};

}  // namespace keel::text
