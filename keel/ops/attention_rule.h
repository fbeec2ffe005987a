#pragma once

#include <cstdint>

namespace keel {

/// What one layer's attention does with a query's score of a key; which tokens follow one another is another matter.
struct AttentionRule {
  double scale = 1;    // scores are multiplied by it
  double softcap = 0;  // then become cap tanh(score / cap); 0: they do not
  int64_t window = 0;  // a token sees this many, itself included; 0: all before it
};

}  // namespace keel
