#pragma once

#include <string>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Parses a network's compute type: float32, bf16, fp16 or auto (bf16 on a GPU, float32 on a CPU).
at::ScalarType compute_type(const std::string& precision, at::Device device);

/// Returns the name of the type; never auto.
std::string precision_name(at::ScalarType type);

/// Returns whether a type has 16 bits.
bool is_narrow(at::ScalarType type);

}  // namespace keel
