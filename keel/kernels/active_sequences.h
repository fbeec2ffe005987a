#pragma once

#include <cstdint>

#include "keel/core/philox.h"
#include "keel/kernels/paged_row.h"

namespace keel {

/// State of the decode batch, one entry per row [count].
struct ActiveSequencePointers {
  int64_t *tokens, *positions;  // the newest token and its position in the sequence
  int64_t* num_generated;       // tokens of the completion so far
  const int64_t* max_new_tokens;
  PagedRow* rows;
  int64_t count;
};

/// The tokens sampled for the rows, and the tokens that end a completion.
struct NextTokenPointers {
  const int64_t* tokens;    // [count]
  const int64_t* stop_ids;  // [num_stop_ids]
  int64_t num_stop_ids;
};

/// Appends row i's sampled token to its sequence. A finished row, like a padding row, has no prompt keys: it attends to
/// one key of its own and does not change until the host sets a new batch.
KEEL_HOST_DEVICE inline void advance_row(const ActiveSequencePointers& batch, const NextTokenPointers& sampled,
                                         int64_t i) {
  PagedRow& row = batch.rows[i];
  if (row.prompt_keys == 0) return;
  const int64_t token = sampled.tokens[i];
  bool ends = ++batch.num_generated[i] >= batch.max_new_tokens[i];
  for (int64_t s = 0; s < sampled.num_stop_ids; ++s) ends = ends || token == sampled.stop_ids[s];
  batch.tokens[i] = token;
  batch.positions[i]++;
  row.own_keys++;
  if (ends) row.prompt_keys = 0, row.own_keys = 1;
}

}  // namespace keel
