#pragma once

#include "keel/core/error.h"
#include "keel/core/tensor/tensor.h"
#include "keel/kernels/float_type.h"

namespace keel {

/// The kernels' name for a tensor's numbers.
inline FloatType float_type(const Tensor& x) {
  if (x.scalar_type() == at::kFloat) return FloatType::kFloat32;
  if (x.scalar_type() == at::kBFloat16) return FloatType::kBfloat16;
  if (x.scalar_type() == at::kHalf) return FloatType::kFloat16;
  fail(ExitCode::kInternal, "no kernel computes with numbers of type ", c10::toString(x.scalar_type()));
}

}  // namespace keel
