#pragma once

#include <cstdint>

#include "keel/kernels/float_type.h"

namespace keel::cuda {

/// A product of rows with a weight.
struct GemmArguments {
  const void* x;  // [rows, inputs], each `stride` numbers after the one before
  int64_t rows, stride, inputs;
  const void* weight;  // [outputs, inputs]
  int64_t outputs;
  FloatType type;
  const void* bias = nullptr;  // [outputs], or null
};

// Of few rows, as a decode step has them: memory is the limit, and what waits for it.

/// Whether the two functions below take it: narrow numbers, up to 64 rows, inputs by 64, loads of 16 bytes.
bool supports_skinny_gemm(const GemmArguments& product);

/// y = x W^T + b, [rows, outputs]. Returns a CUDA error code, 0 for none.
int skinny_gemm(const GemmArguments& product, void* y, void* stream);

/// y = silu(gate) up, [rows, outputs / 2]; the gate is the first half of the outputs. Rounds as separate operators do.
int skinny_gemm_swiglu(const GemmArguments& product, void* y, void* stream);

/// y = x W^T, [rows, outputs], of any number of rows of a narrow type, in that type or in float32, without a bias.
/// Every number is added up in one order, that of the inputs: neither the rows beside it nor the outputs beside it
/// change its bits. Returns a CUDA error code, 0 for none.
int deterministic_gemm(const GemmArguments& product, bool wide, void* y, void* stream);

}  // namespace keel::cuda
