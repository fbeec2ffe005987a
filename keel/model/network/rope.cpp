#include "keel/model/network/rope.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace keel {
namespace {

/// Llama 3.1: low frequencies are divided by the factor, high ones are unchanged, and those between are interpolated.
Tensor llama3_frequencies(const Tensor& frequency, const Rope& rope) {
  const double max_wavelength = rope.original_positions / rope.low_frequency_factor,
               min_wavelength = rope.original_positions / rope.high_frequency_factor;
  const Tensor wavelength = 2 * std::numbers::pi / frequency;
  const Tensor smooth = (rope.original_positions / wavelength - rope.low_frequency_factor) /
                        (rope.high_frequency_factor - rope.low_frequency_factor);
  const Tensor interpolated = (1 - smooth) * frequency / rope.factor + smooth * frequency;
  return at::where(wavelength > max_wavelength, frequency / rope.factor,
                   at::where(wavelength < min_wavelength, frequency, interpolated));
}

/// YaRN (arXiv 2309.00071): high frequencies are unchanged, low ones are divided by the factor, with a linear ramp
/// between them.
Tensor yarn_frequencies(const Tensor& frequency, const Rope& rope, int64_t head_dim) {
  const auto correction_dimension = [&](double rotations) {
    return static_cast<double>(head_dim) * std::log(rope.original_positions / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = correction_dimension(rope.beta_fast), high = correction_dimension(rope.beta_slow);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;  // avoids 0/0
  const Tensor ramp = ((at::arange(head_dim / 2, at::kFloat) - low) / (high - low)).clamp(0, 1);
  return frequency / rope.factor * ramp + frequency * (1 - ramp);
}

}  // namespace

Tensor inverse_frequencies(const Rope& rope, int64_t head_dim) {
  const Tensor exponent = at::arange(0, head_dim, 2, at::kFloat) / static_cast<double>(head_dim);
  const Tensor frequency = at::pow(at::scalar_tensor(rope.theta, at::kFloat), exponent).reciprocal();
  switch (rope.scaling) {
    case Rope::Scaling::kNone:
      return frequency;
    case Rope::Scaling::kLinear:
      return frequency / rope.factor;
    case Rope::Scaling::kLlama3:
      return llama3_frequencies(frequency, rope);
    case Rope::Scaling::kYarn:
      return yarn_frequencies(frequency, rope, head_dim);
  }
  return frequency;
}

}  // namespace keel
