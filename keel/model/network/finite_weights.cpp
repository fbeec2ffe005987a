#include "keel/model/network/finite_weights.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"

namespace keel {

void require_finite(const ModelWeights& model, const std::string& place) {
  for (const NamedTensor& weight : model.parameters()) {
    if (weight.value.isfinite().all().item<bool>()) continue;
    fail(ExitCode::kHealthGuard, place, place.empty() ? "" : ": ", "the model is not finite: its tensor \"",
         weight.name, "\" holds ", weight.value.isnan().any().item<bool>() ? "NaN" : "Inf",
         "; fetch a downloaded model again, or go back to an earlier checkpoint of a run that diverged");
  }
}

void fail_non_finite(const ModelWeights& model, const std::string& place) {
  require_finite(model, place);
  fail(
      ExitCode::kHealthGuard, place,
      ": the model's log-probabilities are not finite, though all its weights are: numbers overflow on the way; check ",
      "its config.json against its weights, the temperature if it is tiny, and rollout.weights if it is fp16",
      model.compute_type() == at::kHalf ? "; fp16 ends at 65504, so that bf16 may be the better precision" : "");
}

}  // namespace keel
