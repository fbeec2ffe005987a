#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/json.h"
#include "keel/core/tensor/tensor.h"
#include "keel/objective/regions/trust_region.h"

// Arguments as torch's dispatcher hands them over, turned into what the library takes.

namespace keel {

using OptionalTensor = std::optional<Tensor>;
using Names = std::vector<std::string>;

/// Runs the body; an Error becomes Python's ValueError.
template <class Body>
auto for_python(Body body) {
  try {
    const at::NoGradGuard no_grad;
    return body();
  } catch (const Error& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}

/// Undefined where it is left out.
Tensor or_none(const OptionalTensor& tensor);

/// One per sequence; empty where they are left out.
std::vector<int64_t> integers(const char* name, const OptionalTensor& tensor);

/// The flags, one for each entry of `like`, as booleans; undefined where they are left out.
Tensor flags(const char* name, const OptionalTensor& given, const Tensor& like);

/// The lengths of the sequences, which have so many tokens together; one sequence where they are left out.
std::vector<int64_t> lengths_or_one(const OptionalTensor& lengths, int64_t tokens);

/// The group of each sequence; all in one where they are left out.
std::vector<int64_t> groups_or_one(const OptionalTensor& groups, size_t sequences);

/// Numbers that came as a tensor, so that torch.compile does not compile anew for each.
std::vector<double> numbers_of(const Tensor& tensor);
std::optional<double> number_of(const OptionalTensor& tensor);

/// A region from what Python was given: numbers, of which an infinite one means "no limit", and words.
TrustRegion region_of(const std::string& name, const Names& names, const Tensor& numbers, const Names& word_names,
                      const Names& words);

}  // namespace keel
