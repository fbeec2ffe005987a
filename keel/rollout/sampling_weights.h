#pragma once

#include <string>
#include <vector>

#include "keel/model/network/causal_lm.h"

namespace keel {

/// A precision of the sampler: a name of rollout.weights, and what it rounds.
struct SamplingPrecision {
  std::string name;
  std::string sentence;
  Rounding rounding;
};

/// All of them; the first is "exact".
const std::vector<SamplingPrecision>& sampling_precisions();
const SamplingPrecision& sampling_precision(const std::string& name);

/// The weights the sampler multiplies with: the model's own ("exact"), or a copy whose linear layers are rounded as
/// low-precision inference engines do it, now, whatever training does later; embedding, norms and head stay as they
/// are. A rounded sampler gives the trust region a real mismatch between mu and pi to hold.
CausalLm sampling_weights(const CausalLm& model, const std::string& precision);

}  // namespace keel
