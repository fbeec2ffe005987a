#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "keel/model/network/causal_lm.h"
#include "keel/model/network/packed_forward.h"
#include "tests/support/tensors.h"

namespace keel {

/// The hidden states of one sequence, computed as in training.
inline Tensor hidden_of(const CausalLm& model, const std::vector<int64_t>& tokens) {
  const int64_t length = static_cast<int64_t>(tokens.size());
  return packed_hidden_states(model, int64_tensor(tokens), at::arange(length, at::kLong),
                              {{.begin = 0, .length = length}});
}

}  // namespace keel
