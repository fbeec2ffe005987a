#pragma once

#include <string>

#include "keel/model/network/model_weights.h"

namespace keel {

/// Fails (exit code 4) with the name of the first weight that has NaN or Inf, if any. It reads every weight, so call it
/// only after a non-finite result at `location`.
void require_finite(const ModelWeights& model, const std::string& location = "");

/// Fails because log-probabilities at `location` are not finite. Names the weight that is not finite, if any.
[[noreturn]] void fail_non_finite(const ModelWeights& model, const std::string& location);

}  // namespace keel
