#pragma once

#include <cstdint>

#include "keel/kernels/float_type.h"

namespace keel::cuda {

/// Products of any number of rows with a weight in which every number is added up in one order, that of the inputs:
/// neither the rows beside it nor the outputs beside it change its bits.
struct OrderedProduct {
  const void* x;  // [rows, inputs], each `stride` numbers after the one before
  int64_t rows, stride, inputs;
  const void* weight;  // [outputs, inputs]
  int64_t outputs;
  FloatType type;  // a narrow one
};

/// y = x W^T, [rows, outputs], of the product's type, or in float32. Returns a CUDA error code, 0 for none.
int multiply_in_order(const OrderedProduct& product, bool wide, void* y, void* stream);

}  // namespace keel::cuda
