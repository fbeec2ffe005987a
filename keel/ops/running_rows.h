#pragma once

#include <cstdint>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// The newest tokens of sequences that are being decoded, a row each, on one device.
struct RunningRows {
  Tensor tokens, positions;  // [N] int64: the token, and where it stands in its sequence
  Tensor places, limits;     // [N] int64: how many tokens of its completion there are, and may be
  Tensor rows;               // [N, 4] int32: a BlockRow each

  RunningRows first(int64_t count) const;
};

/// The rows go on with the tokens [N] that were drawn for them. A row whose token is one of `stop_ids`, or whose
/// completion has as many tokens as it may, stays where it is from then on, as does one that sees no prompt.
void advance(const RunningRows& running, const Tensor& drawn, const Tensor& stop_ids);

}  // namespace keel
