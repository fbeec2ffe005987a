#pragma once

#include <string>

#include "keel/model/network/model_weights.h"

namespace keel {

/// Fails (exit code 4) with the name of the first weight that holds NaN or Inf; does nothing where all are finite. It
/// reads every weight, so it is asked only once a result has turned out not to be finite, at `place`.
void require_finite(const ModelWeights& model, const std::string& place = "");

/// The error of a model whose log-probabilities are not finite at some place: the weight to blame, where it is a
/// weight.
[[noreturn]] void fail_non_finite(const ModelWeights& model, const std::string& place);

}  // namespace keel
