#pragma once

#include <cstdint>

#include "keel/core/philox.h"
#include "keel/kernels/paged_row.h"

namespace keel {

/// Rows of sequences that are being decoded, [count] each: the newest token, where it stands, how many tokens of its
/// completion there are and may be, and what the row sees.
struct ActiveSequencePointers {
  int64_t *tokens, *positions, *places;
  const int64_t* limits;
  PagedRow* rows;
  int64_t count;
};

/// What was drawn for them, and which tokens end a completion.
struct NextTokenPointers {
  const int64_t* tokens;    // [count]
  const int64_t* stop_ids;  // [stops]
  int64_t stops;
};

/// A row goes on with its token. One that has ended, or stands for no sequence, sees no prompt: it looks at a first key
/// of its own and stays where it is until somebody looks after it.
KEEL_HOST_DEVICE inline void advance_row(const ActiveSequencePointers& running, const NextTokenPointers& drawn,
                                         int64_t i) {
  PagedRow& row = running.rows[i];
  if (row.prompt_keys == 0) return;
  const int64_t token = drawn.tokens[i];
  bool ends = ++running.places[i] >= running.limits[i];
  for (int64_t s = 0; s < drawn.stops; ++s) ends = ends || token == drawn.stop_ids[s];
  running.tokens[i] = token;
  running.positions[i]++;
  row.own_keys++;
  if (ends) row.prompt_keys = 0, row.own_keys = 1;
}

}  // namespace keel
