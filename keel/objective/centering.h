#pragma once

#include <optional>
#include <string>

#include "keel/core/token_weight.h"
#include "keel/objective/regions/trust_region.h"

namespace keel {

/// Score centering (arXiv 2609.20807). A method's coefficient is w A; any weight w other than pi/mu leaves a drift
/// E_mu[w grad log pi]. Centering subtracts it: the direction of a token is
///   A (w grad log pi - sum_v m_v grad log pi_v), m_v = mu_v w_v, with the weights w_v of tokens v at the sign of A.
/// kTopK replaces mu outside the sampler's K most likely tokens by a multiple of pi; kExact sums over the vocabulary.
enum class Centering { kNone, kTopK, kExact };

/// The K of kTopK.
inline constexpr int64_t kCenteringTopK = 128;

Centering parse_centering(const std::string& name);  // none, topk or exact

/// The method's weight as a function of one token's pi and mu and the sign of A; none if it depends on anything else.
std::optional<TokenWeights> token_weights(const TrustRegion& region);

/// The reason why a region has no token_weights(), for errors.
std::string no_token_weights_reason(const TrustRegion& region);

/// m_v of tokens v [N, K], at the signs of the advantages [N], in float64. A token with mu = 0 has m = 0.
Tensor weighted_behavior(const TrustRegion& region, const Tensor& advantages, const Tensor& logp,
                         const Tensor& behavior_logp);

/// m_v with mu known for the sampler's top K: all float64.
struct TopKCentering {
  Tensor masses;  // [N, K] m_v of these tokens
  Tensor others;  // [N] m_v/pi_v of every other token
  Tensor totals;  // [N] sum of m_v over the vocabulary
};

/// Log-probs [N, K] of the sampler's top K. Outside of them mu is taken as rho pi, where rho = (1 - sum mu)/(1 - sum
/// pi); sums closer to 1 than 1e-7 count as that.
TopKCentering topk_centering(const TrustRegion& region, const Tensor& advantages, const Tensor& topk_logp,
                             const Tensor& topk_behavior_logp);

}  // namespace keel
