#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>

#include "keel/record/tokens/token_row.h"

namespace keel {

/// Looks at a record's rows as they come, for what no update can have written: numbers that are none of their kind, and
/// rows in another order.
class TokenRowCheck {
 public:
  /// The next row is the first of the file, or any.
  void begin_at(int64_t row);
  /// What is wrong with the next row; empty where nothing is. What is not read of a row, as a new one has it, is sound;
  /// but log(1 - p) is looked at together with log p.
  std::string wrong_with(const TokenRow& row);

 private:
  std::string out_of_order(const TokenRow& row);

  int64_t row_ = 0;     // the next one, from 0
  bool begun_ = false;  // the row before was seen
  int64_t update_ = 0, rollout_ = 0, position_ = 0;
  std::unordered_set<int64_t> rollouts_;  // that were seen of the update
};

}  // namespace keel
