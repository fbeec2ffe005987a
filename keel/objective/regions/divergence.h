#pragma once

#include "keel/core/tensor/tensor.h"
#include "keel/objective/regions/parameter_types.h"

namespace keel {

/// The clamp of log-ratios before exp: e^20 exceeds any useful weight, and exp(89) overflows float32.
inline constexpr double kMaxLogRatio = 20.0;

/// log(1 - exp(x)) for x <= 0 without cancellation (Maechler 2012: expm1 near 0, log1p far from it); -inf at 0.
Tensor log1mexp(const Tensor& x);

/// Counts the log-ratios that the clamp before exp changes. Returns a scalar tensor.
Tensor count_clamped(const Tensor& log_ratio);

/// pi / anchor = exp(clamp(log pi - log anchor, -20, 20)).
Tensor probability_ratio(const Tensor& logp, const Tensor& anchor_logp);

/// pi - mu, precise also where the two are close.
Tensor probability_difference(const Tensor& logp, const Tensor& behavior_logp);

/// |pi - mu| of the sampled token: the total variation of the distribution {this token, any other}.
Tensor binary_tv(const Tensor& logp, const Tensor& behavior_logp);

/// KL(mu || pi) of the distribution {this token, any other}; never negative, infinite if pi is 1 and mu is not. If
/// log(1 - pi) and log(1 - mu) are undefined, they are computed from the log-probs of the token; pi then counts as 1 if
/// its log-prob is rounded to 0.
Tensor binary_kl(const Tensor& logp, const Tensor& behavior_logp, const Tensor& other_logp = {},
                 const Tensor& behavior_other_logp = {});

/// Log-probs of both policies at the K most likely tokens of the sampler [.., K] and at the sampled token [..].
struct TopKLogProbs {
  Tensor behavior_logp, logp;
  Tensor sampled_behavior_logp, sampled_logp;
  Tensor sampled_in_topk;  // bool
  Tensor choices = {};     // [..] int, size of the support of both policies; undefined: the whole vocabulary
};

/// Total variation and KL(mu || pi) over these tokens and "any other", whose probability is clamped to at least 1e-12.
/// It is 0 if the K tokens are the whole support; the list is then padded with tokens of log-prob -inf.
/// Both are lower bounds of the full divergences. `kReplaceLast` matches the code that the DPPO authors released.
Tensor topk_tv(const TopKLogProbs& p, TopKSupport support = TopKSupport::kUnion);
Tensor topk_kl(const TopKLogProbs& p, TopKSupport support = TopKSupport::kUnion);

/// Total variation and KL(mu || pi) of full rows of log-probs [.., V].
Tensor full_tv(const Tensor& logp, const Tensor& behavior_logp);
Tensor full_kl(const Tensor& logp, const Tensor& behavior_logp);

/// Estimates of KL(mu || pi) from the sampled token (Schulman 2020), d = log pi - log mu: -d, d^2 / 2, e^d - 1 - d.
/// In reference_kl.h the tokens are sampled from pi, so the sign of d is opposite.
Tensor k1(const Tensor& logp, const Tensor& behavior_logp);
Tensor k2(const Tensor& logp, const Tensor& behavior_logp);
Tensor k3(const Tensor& logp, const Tensor& behavior_logp);

}  // namespace keel
