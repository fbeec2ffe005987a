#include "keel/core/tensor/precision.h"

#include "keel/core/error.h"

namespace keel {

at::ScalarType compute_type(const std::string& precision, at::Device device) {
  if (precision == "auto") return device.is_cpu() ? at::kFloat : at::kBFloat16;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    if (precision == precision_name(type)) return type;
  fail(ExitCode::kBadConfiguration, "the precision is \"", precision, "\"; known: auto, float32, bf16, fp16");
}

std::string precision_name(at::ScalarType type) {
  return type == at::kBFloat16 ? "bf16" : type == at::kHalf ? "fp16" : "float32";
}

bool is_narrow(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }

}  // namespace keel
