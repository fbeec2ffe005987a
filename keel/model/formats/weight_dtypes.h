#pragma once

#include <map>
#include <optional>
#include <string>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// The types that weights have in a file: each its own, as it was read, or one that was chosen for all.
class WeightDtypes {
 public:
  WeightDtypes(at::ScalarType chosen = at::kFloat) : chosen_(chosen) {}
  explicit WeightDtypes(std::map<std::string, at::ScalarType> each) : each_(std::move(each)) {}

  /// Of the weight with this name; float32 where nothing is known of it.
  at::ScalarType of(const std::string& name) const;
  std::optional<at::ScalarType> chosen() const { return chosen_; }

 private:
  std::optional<at::ScalarType> chosen_;
  std::map<std::string, at::ScalarType> each_;
};

/// "float32", "bfloat16", "float16" and back; other words are errors that name `place`.
std::string dtype_name(at::ScalarType dtype);
at::ScalarType dtype_named(const std::string& name, const std::string& place);

/// The same in the words of the safetensors format: "F32", "BF16", "I8".
std::string dtype_word(at::ScalarType dtype);

}  // namespace keel
