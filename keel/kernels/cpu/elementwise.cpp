#include "keel/kernels/cpu/elementwise.h"

#include <bit>
#include <cmath>

#include "keel/kernels/cpu/target.h"

namespace keel::cpu {
namespace {

/// exp(x) to about 2 units in the last place, without a call and without a branch, so that loops over it vectorise:
/// x = n ln 2 + r, a polynomial of degree 6 in r, and n added to the exponent's bits. Arguments beyond +-80 count as
/// +-80: enough for a sigmoid, and what is divided by e^80 stays a normal number (subnormal ones cost 100 cycles each).
inline float sigmoid_exp(float x) {
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

}  // namespace

KEEL_CPU_KERNEL void rms_norm_forward(const float* x, const float* weight, int64_t rows, int64_t width, float eps,
                                      float* y, float* scale) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; ++i) squares += x[i] * x[i];
    const float s = 1.0f / std::sqrt(squares / static_cast<float>(width) + eps);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) y[i] = x[i] * s * weight[i];
    scale[row] = s;
  }
}

KEEL_CPU_KERNEL void rms_norm_backward(const float* x, const float* weight, const float* scale, const float* dy,
                                       int64_t rows, int64_t width, float* dx, float* dweight) {
  for (int64_t row = 0; row < rows; ++row, x += width, dy += width, dx += width) {
    // With u = dy * weight: dx = s u - s^3 x mean(u x).
    const float s = scale[row];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < width; ++i) dot += dy[i] * weight[i] * x[i];
    const float pull = dot * s * s * s / static_cast<float>(width);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      dx[i] = dy[i] * weight[i] * s - x[i] * pull;
      dweight[i] += dy[i] * x[i] * s;
    }
  }
}

KEEL_CPU_KERNEL void swiglu_forward(const float* gate, const float* up, int64_t count, float* out) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) out[i] = gate[i] / (1.0f + sigmoid_exp(-gate[i])) * up[i];
}

KEEL_CPU_KERNEL void swiglu_backward(const float* gate, const float* up, const float* dout, int64_t count, float* dgate,
                                     float* dup) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float sigmoid = 1.0f / (1.0f + sigmoid_exp(-gate[i]));
    const float silu = gate[i] * sigmoid;
    dup[i] = dout[i] * silu;
    dgate[i] = dout[i] * up[i] * (sigmoid + silu * (1.0f - sigmoid));
  }
}

KEEL_CPU_KERNEL void rotate_heads(const float* x, const float* cos, const float* sin, int64_t rows, int64_t heads,
                                  int64_t width, float direction, float* y) {
  const int64_t half = width / 2;
  for (int64_t row = 0; row < rows; ++row, cos += half, sin += half) {
    for (int64_t head = 0; head < heads; ++head, x += width, y += width) {
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) {
        const float turn = direction * sin[i];
        const float first = x[i], second = x[i + half];
        y[i] = first * cos[i] - second * turn;
        y[i + half] = second * cos[i] + first * turn;
      }
    }
  }
}

}  // namespace keel::cpu
