#pragma once

#include <bit>
#include <cstdint>

namespace keel::cpu {

/// exp(x) to about 2 units in the last place, without calls and branches, so that loops over it vectorise. x = n ln 2 +
/// r; the result is a polynomial of degree 6 in r, with n added to the exponent bits. Arguments are clamped to +-80,
/// which suffices for sigmoid and softmax and avoids subnormal numbers (100 cycles each).
inline float exponential(float x) {
  x = x < -80.0f ? -80.0f : x;
  x = x > 80.0f ? 80.0f : x;
  const float shifted = x * 1.44269504088896341f + 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

}  // namespace keel::cpu
