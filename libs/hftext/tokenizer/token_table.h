#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace keel::text {

/// A fast hash of short strings; the same within one process only.
uint64_t hash_text(std::string_view text);

/// Tokens by id and ids by token. Open addressing over the tokens themselves: a vocabulary of 256,000 loads in
/// milliseconds and each token is stored once.
class TokenTable {
 public:
  static constexpr int32_t kNone = -1;

  void reserve(size_t tokens);
  /// Gives `token` the next id; false when it is there already.
  bool add(std::string token);
  int32_t find(std::string_view token) const;
  const std::string& operator[](int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  bool contains(int64_t id) const { return id >= 0 && id < size(); }
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }

 private:
  size_t slot_of(std::string_view token) const;
  void rehash(size_t slots);

  std::vector<std::string> tokens_;
  std::vector<int32_t> slots_;  // ids, kNone where free; a power of two of them
};

}  // namespace keel::text
