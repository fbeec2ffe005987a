#pragma once

#include <string>

#include "keel/model/network/causal_lm.h"

namespace keel {

/// The weights the sampler multiplies with: the model's own ("exact"), or a copy whose linear layers are rounded to fp8
/// e4m3 with one scale per output channel ("fp8"), as low-precision inference engines do. A rounded sampler gives the
/// trust region a real mismatch between mu and pi to hold.
CausalLm sampling_weights(const CausalLm& model, const std::string& precision);

}  // namespace keel
