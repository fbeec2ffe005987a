#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/train/update/policy_update.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// A token of the vocabulary, and how often a step's updates blocked it.
struct BlockedToken {
  int32_t id = 0;
  std::string text;
  int64_t positive = 0, negative = 0;  // by the sign of its advantage
};

/// Counts which tokens of the vocabulary the updates of a step blocked, on the device; read once.
class BlockedTokens {
 public:
  void add(const DecidedTokens& tokens, int64_t vocabulary);
  /// Those that were blocked most often, the first ten of them; of as many the one with the smaller id.
  std::vector<BlockedToken> most(const Tokenizer& tokenizer) const;

 private:
  Tensor counts_;  // [2, vocabulary] int64: of positive advantages, of negative ones
};

Json to_json(const std::vector<BlockedToken>& tokens);

}  // namespace keel
