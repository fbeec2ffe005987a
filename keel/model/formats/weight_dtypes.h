#pragma once

#include <map>
#include <optional>
#include <string>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// The dtypes of weights in a file: one per weight, as read from a file, or one for all weights.
class WeightDtypes {
 public:
  WeightDtypes(at::ScalarType common = at::kFloat) : common_(common) {}
  explicit WeightDtypes(std::map<std::string, at::ScalarType> by_name) : by_name_(std::move(by_name)) {}

  /// Returns the dtype of a weight; float32 for a weight that the file does not have.
  at::ScalarType get(const std::string& name) const;
  /// Returns the dtype of all weights, if there is one for all.
  std::optional<at::ScalarType> common() const { return common_; }

 private:
  std::optional<at::ScalarType> common_;
  std::map<std::string, at::ScalarType> by_name_;
};

/// Converts to and from "float32", "bfloat16" and "float16"; errors for other names start with `location`.
std::string dtype_name(at::ScalarType dtype);
at::ScalarType parse_dtype(const std::string& name, const std::string& location);

/// The name in the safetensors format, such as "F32", "BF16" or "I8".
std::string safetensors_dtype_name(at::ScalarType dtype);

}  // namespace keel
