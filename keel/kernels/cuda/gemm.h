#pragma once

#include <cstdint>

#include "keel/kernels/float_type.h"

namespace keel::cuda {

/// A second product x W^T that a GEMM adds to its own.
struct AddedGemm {
  const void *x = nullptr, *weight = nullptr;  // [rows, inputs] and [outputs, inputs], contiguous
  int64_t inputs = 0;                          // 0: none
};

/// y = x W^T + b, plus the added product.
struct GemmArguments {
  const void* x;  // [rows, inputs]; `stride` elements from row to row
  int64_t rows, stride, inputs;
  const void* weight;  // [outputs, inputs]
  int64_t outputs;
  FloatType type;
  const void* bias = nullptr;  // [outputs], or null
  AddedGemm added = {};        // only of skinny GEMMs
};

// Skinny GEMMs: the few rows of a decode step, which memory bandwidth and latency limit.

/// Returns whether the two functions below support these arguments: bf16 or fp16, at most 64 rows, inputs (also the
/// added ones) in multiples of 64, 16-byte alignment.
bool supports_skinny_gemm(const GemmArguments& arguments);

/// y = x W^T + b, plus the added product, [rows, outputs]. Returns a CUDA error code or 0.
int skinny_gemm(const GemmArguments& arguments, void* y, void* stream);

/// y = silu(gate) up, [rows, outputs / 2]; the gate is the first half of the outputs. Rounds as separate operators do.
int skinny_gemm_swiglu(const GemmArguments& arguments, void* y, void* stream);

/// y = x W^T, [rows, outputs], without a bias, for bf16 and fp16 and any number of rows; y is float32 or of the same
/// type. The order of summation, and so the bits of a result, do not depend on other rows and outputs. Returns a CUDA
/// error code or 0.
int deterministic_gemm(const GemmArguments& arguments, bool float32_result, void* y, void* stream);

}  // namespace keel::cuda
