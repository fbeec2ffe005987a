#pragma once

#include <cstdint>

#include "keel/kernels/float_type.h"

namespace keel::cuda {

/// Products of few rows with a weight, as a decode step has them: memory is the limit, and what waits for it.
struct FewRows {
  const void* x;  // [rows, inputs], each `stride` numbers after the one before
  int64_t rows, stride, inputs;
  const void* weight;  // [outputs, inputs]
  const void* bias;    // [outputs], or null
  int64_t outputs;
  FloatType type;
};

/// Whether the two functions below take it: narrow numbers, up to 64 rows, inputs by 64, loads of 16 bytes.
bool takes_few_rows(const FewRows& product);

/// y = x W^T + b, [rows, outputs]. Returns a CUDA error code, 0 for none.
int multiply_few_rows(const FewRows& product, void* y, void* stream);

/// y = silu(gate) up, [rows, outputs / 2], where the first half of the outputs is the gate; rounded as one operator
/// after the other would round.
int swiglu_few_rows(const FewRows& product, void* y, void* stream);

}  // namespace keel::cuda
