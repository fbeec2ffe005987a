#pragma once

namespace keel {

/// What numbers a kernel reads and writes; it computes in float32 whatever they are.
enum class FloatType { kFloat32, kBfloat16, kFloat16 };

}  // namespace keel
