#include "keel/model/network/rope.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace keel {
namespace {

/// Llama 3.1: slow turns are slowed down further by the factor, fast ones stay, those between are mixed.
Tensor llama3(const Tensor& frequency, const Rope& rope) {
  const double slow = rope.original_positions / rope.low_frequency_factor,
               fast = rope.original_positions / rope.high_frequency_factor;
  const Tensor wavelength = 2 * std::numbers::pi / frequency;
  const Tensor smooth = (rope.original_positions / wavelength - rope.low_frequency_factor) /
                        (rope.high_frequency_factor - rope.low_frequency_factor);
  const Tensor mixed = (1 - smooth) * frequency / rope.factor + smooth * frequency;
  return at::where(wavelength > slow, frequency / rope.factor, at::where(wavelength < fast, frequency, mixed));
}

/// YaRN (arXiv 2309.00071): pairs that turn often keep their frequency, those that hardly turn are stretched, with a
/// ramp between the two.
Tensor yarn(const Tensor& frequency, const Rope& rope, int64_t head_dim) {
  const auto dimension_of = [&](double turns) {
    return static_cast<double>(head_dim) * std::log(rope.original_positions / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = dimension_of(rope.beta_fast), high = dimension_of(rope.beta_slow);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;  // a ramp without a width would be 0/0
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
      return llama3(frequency, rope);
    case Rope::Scaling::kYarn:
      return yarn(frequency, rope, head_dim);
  }
  return frequency;
}

}  // namespace keel
