#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>

#include "keel/core/json.h"
#include "keel/record/tokens/token_row.h"

namespace keel {

/// Looks at a record's rows as they come, for what no update can have written: numbers that are none of their kind,
/// rows in another order, and rows that are not all there.
class TokenRowCheck {
 public:
  /// Of a file that says this of its step, as far as it says it.
  explicit TokenRowCheck(const Json& facts);

  /// The next row is the first of the file, or any.
  void begin_at(int64_t row);
  /// What is wrong with the next row; empty where nothing is. What is not read of a row, as a new one has it, is sound;
  /// but log(1 - p) is looked at together with log p.
  std::string wrong_with(const TokenRow& row);
  /// What is wrong with all rows together; empty also where they were not seen from the first on.
  std::string wrong_at_the_end() const;

 private:
  std::string out_of_order(const TokenRow& row);

  std::optional<int64_t> step_, recorded_;  // of all rows; how many completions there are
  int64_t row_ = 0;                         // the next one, from 0
  bool begun_ = false;                      // the row before was seen
  int64_t update_ = 0, rollout_ = 0, position_ = 0;
  std::unordered_set<int64_t> rollouts_;  // that were seen of the update
  bool from_the_first_ = true;
  int64_t passes_ = 0;               // completions, each counted in each update
  std::unordered_set<int64_t> all_;  // that were seen in any
};

}  // namespace keel
