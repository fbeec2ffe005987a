#pragma once

#include <string>
#include <vector>

#include "keel/model/network/sampling_model.h"

namespace keel {

/// A value of rollout.weights, and what it rounds.
struct SamplingPrecision {
  std::string name;
  std::string description;
  Rounding rounding;
};

/// All precisions; the first is "exact".
const std::vector<SamplingPrecision>& sampling_precisions();
const SamplingPrecision& sampling_precision(const std::string& name);

/// Creates a sampler with the model's own weights ("exact"), or with a copy whose linear layers are rounded as in
/// low-precision inference engines. Embedding, norms and head are not rounded.
SamplingModel sampling_model(const SamplerWeights& weights, const std::string& precision);

}  // namespace keel
