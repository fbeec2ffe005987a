#include "keel/kernels/cpu/elementwise.h"

#include <algorithm>
#include <cmath>

#include "keel/kernels/cpu/exponential.h"
#include "keel/kernels/cpu/target.h"

namespace keel::cpu {
namespace {

constexpr int kLanes = 16;  // fixed, so that the order of summation does not depend on the machine

/// Sums term(i) for i < width.
template <class Term>
[[gnu::always_inline]] inline float lane_sum(int64_t width, const Term& term) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  for (int lane = 0; i + lane < width; ++lane) lanes[lane] += term(i + lane);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

/// Finite angles below 2^20 only. Reduces the angle to a quarter turn in double precision, then uses power series.
[[gnu::always_inline]] inline void sine_and_cosine(float angle, float& sine, float& cosine) {
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
  constexpr double kTwoOverPi = 0.63661977236758134, kHalfPi = 1.5707963267341256, kHalfPiRest = 6.0771005065061922e-11;
  const double quarters = (angle * kTwoOverPi + kRound) - kRound;
  const double r = (angle - quarters * kHalfPi) - quarters * kHalfPiRest, rr = r * r;
  const double s =
      r + r * rr * (-1.0 / 6 + rr * (1.0 / 120 + rr * (-1.0 / 5040 + rr * (1.0 / 362880 - rr / 39916800))));
  const double c = 1 + rr * (-0.5 + rr * (1.0 / 24 + rr * (-1.0 / 720 + rr * (1.0 / 40320 - rr / 3628800))));
  const auto quadrant = static_cast<int64_t>(quarters);
  const double first = quadrant & 1 ? c : s, second = quadrant & 1 ? s : c;
  sine = static_cast<float>(quadrant & 2 ? -first : first);
  cosine = static_cast<float>((quadrant + 1) & 2 ? -second : second);
}

}  // namespace

KEEL_CPU_KERNEL void rotary_angles(const int64_t* positions, const float* frequencies, int64_t rows, int64_t half,
                                   float factor, float* cos, float* sin) {
  for (int64_t row = 0; row < rows; ++row, cos += half, sin += half) {
    const float position = static_cast<float>(positions[row]);
    for (int64_t i = 0; i < half; ++i) {
      sine_and_cosine(position * frequencies[i], sin[i], cos[i]);
      sin[i] *= factor;
      cos[i] *= factor;
    }
  }
}

KEEL_CPU_KERNEL void rms_norm_forward(const float* x, const float* weight, int64_t rows, int64_t width, float eps,
                                      float* y, float* scale) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
    const float squares = lane_sum(width, [&](int64_t i) { return x[i] * x[i]; });
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
    const float dot = lane_sum(width, [&](int64_t i) { return dy[i] * weight[i] * x[i]; });
    const float projection = dot * s * s * s / static_cast<float>(width);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) dx[i] = dy[i] * weight[i] * s - x[i] * projection;
    if (dweight == nullptr) continue;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) dweight[i] += dy[i] * x[i] * s;
  }
}

namespace {

// An activation is x s(x); these functions return s and its slope. s is a sigmoid for SiLU and for GELU's tanh form.

struct Sigmoid {
  float value, slope;
};

[[gnu::always_inline]] inline Sigmoid silu(float x) {
  const float s = 1.0f / (1.0f + exponential(-x));
  return {s, s * (1.0f - s)};
}

[[gnu::always_inline]] inline Sigmoid gelu_tanh(float x) {
  constexpr float k = 1.5957691216057308f, c = 0.044715f;  // k = 2 sqrt(2 / pi)
  const float s = 1.0f / (1.0f + exponential(-k * (x + c * x * x * x)));
  return {s, s * (1.0f - s) * k * (1.0f + 3.0f * c * x * x)};
}

[[gnu::always_inline]] inline Sigmoid gelu(float x) {
  constexpr float root_half = 0.70710678118654752f, density = 0.39894228040143268f;
  return {0.5f * std::erfc(-x * root_half), density * std::exp(-0.5f * x * x)};
}

template <Sigmoid (*sigmoid)(float)>
[[gnu::always_inline]] inline void forward(const float* gate, const float* up, int64_t count, float* out) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) out[i] = gate[i] * sigmoid(gate[i]).value * up[i];
}

template <Sigmoid (*sigmoid)(float)>
[[gnu::always_inline]] inline void backward(const float* gate, const float* up, const float* dout, int64_t count,
                                            float* dgate, float* dup) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const Sigmoid s = sigmoid(gate[i]);
    dup[i] = dout[i] * gate[i] * s.value;
    dgate[i] = dout[i] * up[i] * (s.value + gate[i] * s.slope);
  }
}

}  // namespace

KEEL_CPU_KERNEL void gated_forward(Activation activation, const float* gate, const float* up, int64_t count,
                                   float* out) {
  switch (activation) {
    case Activation::kSilu:
      return forward<silu>(gate, up, count, out);
    case Activation::kGeluTanh:
      return forward<gelu_tanh>(gate, up, count, out);
    case Activation::kGelu:
      return forward<gelu>(gate, up, count, out);
  }
}

KEEL_CPU_KERNEL void gated_backward(Activation activation, const float* gate, const float* up, const float* dout,
                                    int64_t count, float* dgate, float* dup) {
  switch (activation) {
    case Activation::kSilu:
      return backward<silu>(gate, up, dout, count, dgate, dup);
    case Activation::kGeluTanh:
      return backward<gelu_tanh>(gate, up, dout, count, dgate, dup);
    case Activation::kGelu:
      return backward<gelu>(gate, up, dout, count, dgate, dup);
  }
}

KEEL_CPU_KERNEL void rotate_heads(const float* x_rows, int64_t stride, const float* cos, const float* sin, int64_t rows,
                                  int64_t heads, int64_t width, float direction, float* y) {
  const int64_t half = width / 2;
  for (int64_t row = 0; row < rows; ++row, cos += half, sin += half) {
    const float* x = x_rows + row * stride;
    for (int64_t head = 0; head < heads; ++head, x += width, y += width) {
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) {
        const float s = direction * sin[i];
        const float first = x[i], second = x[i + half];
        y[i] = first * cos[i] - second * s;
        y[i + half] = second * cos[i] + first * s;
      }
    }
  }
}

void dropout(const float* x, const int64_t* sequences, const int64_t* positions, int64_t rows, int64_t width,
             const DropoutNoise& noise, float* y) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width)
    for (int64_t begin = 0; begin < width; begin += 4) {
      const DropoutFactors factors(noise, static_cast<uint64_t>(sequences[row]), static_cast<uint32_t>(positions[row]),
                                   static_cast<uint32_t>(begin / 4));
      const int64_t end = std::min(begin + 4, width);
      for (int64_t i = begin; i < end; ++i) y[i] = x[i] * factors.of[i - begin];
    }
}

}  // namespace keel::cpu
