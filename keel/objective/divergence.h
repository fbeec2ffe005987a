#pragma once

#include "keel/core/tensor.h"

namespace keel {

/// A log-ratio is held within this before exp: e^20 is far beyond any useful weight, and exp(89) is infinite in
/// float32.
inline constexpr double kMaxLogRatio = 20.0;

/// log(1 - exp(x)) for x <= 0 without cancellation (Maechler 2012: expm1 near 0, log1p far from it); -inf at 0.
Tensor log1mexp(const Tensor& x);

/// pi / anchor = exp(clamp(log pi - log anchor, -20, 20)).
Tensor probability_ratio(const Tensor& logp, const Tensor& anchor_logp);

/// |pi - mu| of the sampled token: the total variation of "this token or another".
Tensor binary_tv(const Tensor& logp, const Tensor& behavior_logp);

/// KL(mu || pi) of "this token or another"; infinite where pi is 1 and mu is not. Never negative.
Tensor binary_kl(const Tensor& logp, const Tensor& behavior_logp);

}  // namespace keel
