#pragma once

#include <cmath>

namespace keel {

/// The weight w of a method whose coefficient is w A, as a function of one token's pi and mu, r = pi/mu, for one sign
/// of A: the clamped ratio times factors, and 0 for blocked tokens. CPU and GPU kernels evaluate it (keel/kernels), so
/// it is plain numbers.
struct TokenWeight {
  float min_weight = 2.0611537e-9f, max_weight = 4.851652e8f;  // clamp of r; e^-20 and e^20 are that of every ratio
  bool inverse = false;                                        // clamps 1/r instead
  float min_ratio = 0, max_ratio = HUGE_VALF;                  // blocked if r is outside, unless mu < rare_mu
  float rare_mu = 0;
  float max_rise = HUGE_VALF, max_fall = HUGE_VALF;        // blocked if pi - mu or mu - pi is above
  float max_kl_rise = HUGE_VALF, max_kl_fall = HUGE_VALF;  // blocked if the binary KL(mu || pi) is above
  float slope = 0, slope_from = -1;                        // factor 1 - slope (pi - mu) where |pi - mu| > slope_from
  float ratio_slope = 0;                                   // factor 1 - ratio_slope (r - 1)
  float decay = 0;                                         // factor 1/cosh(decay (r - 1))^2
  float tail_below = 0, tail_above = HUGE_VALF, tail_power = 0;  // factor (r / bound)^power beyond a bound
};

/// The weights for A > 0 and for A < 0.
struct TokenWeights {
  TokenWeight positive, negative;
};

}  // namespace keel
