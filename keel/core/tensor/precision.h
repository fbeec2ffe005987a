#pragma once

#include <string>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// The type that a network computes in by a word: float32, bf16, fp16 or auto, which is bf16 on a GPU and float32 on a
/// CPU.
at::ScalarType compute_type(const std::string& precision, at::Device device);

/// The word for it; never auto.
std::string precision_name(at::ScalarType type);

/// Whether a type has fewer digits than float32.
bool is_narrow(at::ScalarType type);

}  // namespace keel
