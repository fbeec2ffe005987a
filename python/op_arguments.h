#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/json.h"
#include "keel/core/tensor/tensor.h"
#include "keel/objective/regions/trust_region.h"

// Conversion of operator arguments from torch's dispatcher to library types.

namespace keel {

using OptionalTensor = std::optional<Tensor>;
using Names = std::vector<std::string>;

/// Runs the body and turns an Error into a Python ValueError.
template <class Body>
auto for_python(Body body) {
  try {
    const at::NoGradGuard no_grad;
    return body();
  } catch (const Error& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}

/// The tensor, or an undefined one for None.
Tensor or_none(const OptionalTensor& tensor);

/// Integers, one per sequence; empty for None.
std::vector<int64_t> integers(const char* name, const OptionalTensor& tensor);

/// Flags as booleans, one for each entry of `like`; undefined for None.
Tensor flags(const char* name, const OptionalTensor& given, const Tensor& like);

/// The lengths of the sequences, checked to add up to `tokens`; a single sequence for None.
std::vector<int64_t> lengths_or_one(const OptionalTensor& lengths, int64_t tokens);

/// The group of each sequence; a single group for None.
std::vector<int64_t> groups_or_one(const OptionalTensor& groups, size_t sequences);

/// Reads numbers from a tensor. They are passed as one so that torch.compile does not recompile when they change.
std::vector<double> numbers_of(const Tensor& tensor);
std::optional<double> number_of(const OptionalTensor& tensor);

/// Makes a region from numbers (infinity: no limit) and strings.
TrustRegion region_of(const std::string& name, const Names& names, const Tensor& numbers, const Names& word_names,
                      const Names& words);

}  // namespace keel
