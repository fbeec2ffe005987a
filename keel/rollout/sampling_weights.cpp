#include "keel/rollout/sampling_weights.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"

namespace keel {
namespace {

constexpr double kLargestE4m3 = 448.0;

Tensor round_to_fp8(const Tensor& weight) {  // [out, in]
  const at::NoGradGuard no_grad;
  const Tensor scale = weight.abs().amax(1, /*keepdim=*/true).div_(kLargestE4m3).clamp_min_(1e-12);
  return (weight / scale).to(at::kFloat8_e4m3fn).to(weight.scalar_type()).mul_(scale);
}

}  // namespace

CausalLm sampling_weights(const CausalLm& model, const std::string& precision) {
  if (precision == "exact") return model;
  if (precision == "fp8") return model.with_linear_weights(round_to_fp8);
  fail(ExitCode::kBadConfiguration, "rollout.weights is \"", precision, "\"; known: exact, fp8");
}

}  // namespace keel
