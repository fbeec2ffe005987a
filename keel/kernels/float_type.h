#pragma once

namespace keel {

/// What numbers a kernel reads and writes; it computes in float32 whatever they are.
enum class FloatType { kFloat32, kBfloat16, kFloat16 };

/// The two formats of 8 bits: 4 bits of exponent and 3 of fraction, or 5 and 2.
enum class Float8 { kE4m3, kE5m2 };

/// The largest number that the format holds.
constexpr float largest_of(Float8 format) { return format == Float8::kE4m3 ? 448 : 57344; }

}  // namespace keel
