#pragma once

#include <cstdint>

#include "keel/core/kept_tokens.h"

namespace keel {

/// A set of tokens for each row of logits: kept_words() from words[begins[i]] on.
struct KeptRowPointers {
  const int32_t* sizes;   // [rows]
  const int64_t* begins;  // [rows]
  const uint32_t* words;
};

}  // namespace keel
