#pragma once

#include "keel/core/tensor/tensor.h"
#include "keel/objective/regions/parameter_types.h"

namespace keel {

/// Log-ratios are clamped to this before exp: e^20 is far beyond any useful weight, and exp(89) overflows float32.
inline constexpr double kMaxLogRatio = 20.0;

/// log(1 - exp(x)) for x <= 0 without cancellation (Maechler 2012: expm1 near 0, log1p far from it); -inf at 0.
Tensor log1mexp(const Tensor& x);

/// How many log-ratios the clamp before exp changes. [].
Tensor count_clamped(const Tensor& log_ratio);

/// pi / anchor = exp(clamp(log pi - log anchor, -20, 20)).
Tensor probability_ratio(const Tensor& logp, const Tensor& anchor_logp);

/// pi - mu, with its digits where the two are close.
Tensor probability_difference(const Tensor& logp, const Tensor& behavior_logp);

/// |pi - mu| of the sampled token: the total variation of "this token or another".
Tensor binary_tv(const Tensor& logp, const Tensor& behavior_logp);

/// KL(mu || pi) of "this token or another"; infinite where pi is 1 and mu is not. Never negative. The log-probs of the
/// others, log(1 - pi) and log(1 - mu), are made from those of the token where they are undefined: then pi counts as 1
/// where its log-prob has been rounded to 0.
Tensor binary_kl(const Tensor& logp, const Tensor& behavior_logp, const Tensor& other_logp = {},
                 const Tensor& behavior_other_logp = {});

/// Both policies at the sampler's K most likely tokens ([.., K]), and at the sampled one ([..]).
struct TopKLogProbs {
  Tensor behavior_logp, logp;
  Tensor sampled_behavior_logp, sampled_logp;
  Tensor sampled_in_topk;  // bool
};

/// Total variation and KL(mu || pi) over these tokens and "any other", whose probability is at least 1e-12. Lower
/// bounds of the full ones: merging tokens loses what they differ by. `kReplaceLast` is what DPPO's authors released.
Tensor topk_tv(const TopKLogProbs& p, TopKSupport support = TopKSupport::kUnion);
Tensor topk_kl(const TopKLogProbs& p, TopKSupport support = TopKSupport::kUnion);

/// Total variation and KL(mu || pi) of whole rows of log-probs [.., V].
Tensor full_tv(const Tensor& logp, const Tensor& behavior_logp);
Tensor full_kl(const Tensor& logp, const Tensor& behavior_logp);

/// Estimates of KL(mu || pi) from the sampled token (Schulman 2020), d = log pi - log mu: -d, d^2 / 2, e^d - 1 - d.
Tensor k1(const Tensor& logp, const Tensor& behavior_logp);
Tensor k2(const Tensor& logp, const Tensor& behavior_logp);
Tensor k3(const Tensor& logp, const Tensor& behavior_logp);

}  // namespace keel
