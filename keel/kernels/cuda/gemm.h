#pragma once

#include <cstdint>

#include "keel/kernels/float_type.h"

namespace keel::cuda {

/// A product u B^T that a GEMM adds to its own. u is given, or the kernel computes u = x A^T (a LoRA adapter).
struct AddedGemm {
  const void *a = nullptr, *u = nullptr;  // A [rank, inputs], or u [rows, rank]; contiguous
  const void* b = nullptr;                // [outputs, rank], contiguous
  int64_t rank = 0;                       // 0: none
};

constexpr int64_t kMaxFusedRank = 64;  // of an adapter whose u = x A^T the kernel computes

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

/// Returns whether the two functions below support these arguments: bf16 or fp16, inputs in multiples of 64, 16-byte
/// alignment, and at most 64 rows. With A: at most 256 rows, unless the GEMM is large, and a rank of at most
/// kMaxFusedRank in multiples of 8. With u: ranks in multiples of 64.
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
