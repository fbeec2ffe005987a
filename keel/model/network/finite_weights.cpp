#include "keel/model/network/finite_weights.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"

namespace keel {

void require_finite(const ModelWeights& model, const std::string& location) {
  for (const NamedTensor& weight : model.parameters()) {
    if (weight.value.isfinite().all().item<bool>()) continue;
    fail(ExitCode::kHealthGuard, location, location.empty() ? "" : ": ", "the model is not finite: tensor \"",
         weight.name, "\" holds ", weight.value.isnan().any().item<bool>() ? "NaN" : "Inf",
         "; fetch a downloaded model again, or go back to an earlier checkpoint of a run that diverged");
  }
}

void fail_non_finite(const ModelWeights& model, const std::string& location) {
  require_finite(model, location);
  fail(ExitCode::kHealthGuard, location,
       ": the model's log-probabilities are not finite, though all its weights are: activations overflow; check ",
       "its config.json against its weights, the temperature if it is tiny, and rollout.weights if it is fp16",
       model.compute_type() == at::kHalf ? "; the maximum of fp16 is 65504, so try bf16" : "");
}

}  // namespace keel
