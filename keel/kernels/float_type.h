#pragma once

namespace keel {

/// Dtype that a kernel reads and writes. Kernels compute in float32.
enum class FloatType { kFloat32, kBfloat16, kFloat16 };

/// 8-bit formats: e4m3 has 4 bits of exponent and 3 of mantissa, e5m2 has 5 and 2.
enum class Float8 { kE4m3, kE5m2 };

/// The largest finite value of the format.
constexpr float max_of(Float8 format) { return format == Float8::kE4m3 ? 448 : 57344; }

}  // namespace keel
