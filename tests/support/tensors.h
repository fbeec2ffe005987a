#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// Returns ||a - b|| / ||b|| in the 2-norm in float64, or ||a|| if b is 0.
inline double relative_difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  const Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  const double norm = y.norm().item<double>(), distance = (x - y).norm().item<double>();
  return norm > 0 ? distance / norm : distance;
}

inline double largest_difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  if (a.numel() == 0) return 0;
  return (a.detach().to(at::kDouble) - b.detach().to(at::kDouble)).abs().max().item<double>();
}

inline std::vector<double> to_vector(const Tensor& x) {
  const Tensor flat = x.detach().to(at::kDouble).contiguous().flatten();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

/// Returns normal random numbers that depend only on the seed.
inline Tensor random_normal(at::IntArrayRef shape, uint64_t seed, at::ScalarType type = at::kFloat) {
  at::manual_seed(seed);
  return at::randn(shape, at::kDouble).to(type);
}

inline Tensor int64_tensor(const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); }

}  // namespace keel
