#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "keel/model/network/linear.h"
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

/// Expects the same of the matrices of an adapter. The numbers between A and B have the dtype of the layer.
inline void expect_float32_gradients_of_adapters(at::Device device) {
  const int64_t rows = 70, in = 48, out = 32, rank = 8;
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const auto random = [&](at::IntArrayRef sizes, int seed) { return random_normal(sizes, seed).to(device, type); };
    const Linear layer{.weight = Weight(random({out, in}, 1)),
                       .bias = {},
                       .lora_a = Weight(random({rank, in}, 2)),
                       .lora_b = Weight(random({out, rank}, 3)),
                       .lora_scale = 1};
    const GradientSinks gradients({{"A", layer.lora_a}, {"B", layer.lora_b}});
    const Tensor x = random({rows, in}, 4).requires_grad_(), dy = random({rows, out}, 5);
    layer(x, /*deterministic=*/false, {}).backward(dy);
    const Tensor h = at::linear(x.detach(), layer.lora_a.value()), dh = at::mm(dy, layer.lora_b.value());
    const auto exact_product = [](const Tensor& a, const Tensor& b) {
      return a.to(at::kDouble).t().mm(b.detach().to(at::kDouble));
    };
    EXPECT_LT(relative_difference(gradients.sums()[0], exact_product(dh, x)), 1e-6) << type;
    EXPECT_LT(relative_difference(gradients.sums()[1], exact_product(dy, h)), 1e-6) << type;
  }
}

}  // namespace keel
