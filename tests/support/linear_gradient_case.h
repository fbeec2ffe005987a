#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "keel/ops/weight.h"
#include "tests/support/tensors.h"

namespace keel {

/// Expects that the gradients of a linear layer in bf16 and fp16 are not rounded to its dtype: they equal products and
/// sums of the same numbers in float64.
inline void expect_float32_gradients_of_linear_layers(at::Device device) {
  const int64_t rows = 70, in = 48, out = 32;
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
    for (const bool has_bias : {false, true}) {
      const auto random = [&](at::IntArrayRef sizes, int seed) { return random_normal(sizes, seed).to(device, type); };
      const Weight weight(random({out, in}, 1)), bias(random({out}, 2));
      std::vector<NamedWeight> weights = {{"weight", weight}};
      if (has_bias) weights.push_back({"bias", bias});
      const GradientSinks gradients(weights);
      const Tensor x = random({rows, in}, 3).requires_grad_(), dy = random({rows, out}, 4);
      weight.linear(x, has_bias ? bias : Weight()).backward(dy);
      const Tensor exact_x = x.detach().to(at::kDouble), exact_dy = dy.to(at::kDouble);
      EXPECT_LT(relative_difference(gradients.sums()[0], exact_dy.t().mm(exact_x)), 1e-6) << type << has_bias;
      EXPECT_LT(relative_difference(x.grad(), exact_dy.mm(weight.value().to(at::kDouble))), 4e-3) << type << has_bias;
      if (has_bias) {
        EXPECT_LT(relative_difference(gradients.sums()[1], exact_dy.sum(0)), 1e-6) << type;
      }
    }
}

}  // namespace keel
