#pragma once

#include <ATen/ATen.h>

#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

/// Reads a file of tests/goldens (described in its README.md). Tests run in the repository root.
inline Json golden(const std::string& name) {
  const std::string path = "tests/goldens/" + name;
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + " does not exist; run the tests from the repository root");
  return Json::parse(file);
}

/// Reads an array in which `null` is infinity.
inline std::vector<double> numbers(const Json& array) {
  std::vector<double> result;
  for (const Json& x : array) result.push_back(x.is_null() ? std::numeric_limits<double>::infinity() : x.get<double>());
  return result;
}

/// A batch of batches.json.
struct GoldenBatch {
  explicit GoldenBatch(const Json& batch)
      : logp(numbers(batch.at("logp"))),
        behavior_logp(numbers(batch.at("behavior_logp"))),
        advantages(numbers(batch.at("advantages"))),
        lengths(batch.at("lengths").get<std::vector<int64_t>>()),
        mask(batch.at("mask").get<std::vector<int64_t>>()),
        horizon(batch.at("horizon").get<double>()) {
    for (size_t i = 0; i < mask.size(); ++i)
      if (mask[i] != 0) valid.push_back(i);
  }

  /// Returns the entries of a token array where the mask is set.
  template <class T>
  std::vector<T> only_valid(const std::vector<T>& all) const {
    std::vector<T> result;
    for (const size_t i : valid) result.push_back(all.at(i));
    return result;
  }

  /// Returns only_valid() as a tensor.
  Tensor valid_tensor(const std::vector<double>& all, at::ScalarType type) const {
    return at::tensor(only_valid(all), at::kDouble).to(type);
  }

  /// Returns the number of valid tokens of each sequence.
  std::vector<int64_t> valid_tokens() const {
    std::vector<int64_t> result;
    size_t begin = 0;
    for (const int64_t length : lengths) {
      int64_t count = 0;
      for (int64_t t = 0; t < length; ++t) count += mask.at(begin + t);
      result.push_back(count);
      begin += length;
    }
    return result;
  }

  std::vector<double> logp, behavior_logp, advantages;
  std::vector<int64_t> lengths, mask;
  double horizon;
  std::vector<size_t> valid;  // indices of the tokens with the mask set
};

inline GoldenBatch golden_batch(const Json& batches, const std::string& name) {
  for (const Json& batch : batches.at("batches"))
    if (batch.at("name") == name) return GoldenBatch(batch);
  throw std::runtime_error("batches.json has no batch " + name);
}

}  // namespace keel
