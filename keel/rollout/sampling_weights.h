#pragma once

#include <string>
#include <vector>

#include "keel/model/network/sampling_model.h"

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

/// The sampler of a precision: with the model's own weights ("exact"), or with a copy whose linear layers are rounded
/// as low-precision inference engines do it; embedding, norms and head stay as they are. A rounded sampler gives the
/// trust region a real mismatch between mu and pi to hold.
SamplingModel sampling_model(const SamplerWeights& weights, const std::string& precision);

}  // namespace keel
