#include "keel/model/formats/weight_dtypes.h"

#include "keel/core/error.h"

namespace keel {

at::ScalarType WeightDtypes::get(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found != by_name_.end() ? found->second : common_.value_or(at::kFloat);
}

std::string dtype_name(at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? "bfloat16" : dtype == at::kHalf ? "float16" : "float32";
}

at::ScalarType parse_dtype(const std::string& name, const std::string& location) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf})
    if (dtype_name(dtype) == name) return dtype;
  fail(ExitCode::kBadConfiguration, location, " is \"", name, "\"; known: float32, bfloat16, float16");
}

std::string safetensors_dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "F32";
    case at::kHalf:
      return "F16";
    case at::kBFloat16:
      return "BF16";
    case at::kDouble:
      return "F64";
    case at::kLong:
      return "I64";
    case at::kInt:
      return "I32";
    case at::kShort:
      return "I16";
    case at::kChar:
      return "I8";
    case at::kByte:
      return "U8";
    case at::kBool:
      return "BOOL";
    case at::kFloat8_e4m3fn:
      return "F8_E4M3";
    case at::kFloat8_e5m2:
      return "F8_E5M2";
    default:
      return c10::toString(dtype);
  }
}

}  // namespace keel
