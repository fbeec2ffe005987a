// Dropout on adapter inputs in training passes.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "keel/model/network/causal_lm.h"
#include "keel/model/network/packed_forward.h"
#include "tests/support/reference_model.h"

namespace keel {
namespace {

// A prompt of four tokens and two completions that share it.
const std::vector<int64_t> kThinnedTokens{3, 1, 4, 1, 5, 9, 2, 6, 5}, kThinnedPositions{0, 1, 2, 3, 4, 5, 6, 4, 5},
    kThinnedOwners{0, 0, 0, 0, 1, 1, 1, 3, 3};
const std::vector<Segment> kThinnedSegments{{.begin = 0, .length = 4},
                                            {.begin = 4, .length = 3, .prefix_begin = 0, .prefix_length = 4},
                                            {.begin = 7, .length = 2, .prefix_begin = 0, .prefix_length = 4}};

ModelWeights adapted_model() {
  ModelWeights model = tiny_model(tiny_config(4, 2, false));
  model.add_adapter({.rank = 3}, /*seed=*/3);
  const at::NoGradGuard no_grad;
  uint64_t seed = 50;
  for (const NamedTensor& weight : model.adapter())
    Tensor(weight.value).add_(random_normal(weight.value.sizes(), ++seed) * 0.3);
  return model;
}

/// A pass of update 7.
Tensor thinned_states(const CausalLm& model, double share) {
  const Dropout dropout{.probability = share,
                        .seed = 11,
                        .update = 7,
                        .sequences = int64_tensor(kThinnedOwners),
                        .positions = int64_tensor(kThinnedPositions)};
  return packed_hidden_states(model, int64_tensor(kThinnedTokens), int64_tensor(kThinnedPositions), kThinnedSegments,
                              dropout);
}

Tensor plain_states(const CausalLm& model) {
  return packed_hidden_states(model, int64_tensor(kThinnedTokens), int64_tensor(kThinnedPositions), kThinnedSegments);
}

std::vector<Tensor> thinned_gradients(const CausalLm& model, double share) {
  const GradientSinks gradients(model.weights().trainable());
  const Tensor states = thinned_states(model, share);
  states.backward(random_normal(states.sizes(), 9));
  return gradients.sums();
}

TEST(AdapterDropout, AppliesOnlyToAdapterInputs) {
  Linear layer{.weight = random_normal({5, 12}, 1),
               .bias = {},
               .lora_a = random_normal({3, 12}, 2),
               .lora_b = random_normal({5, 3}, 3),
               .lora_scale = 0.7};
  const Tensor x = random_normal({9, 12}, 4);
  const Tensor owners = int64_tensor(kThinnedOwners), positions = int64_tensor(kThinnedPositions);
  const Dropout dropout{.probability = 0.4, .seed = 1, .sequences = owners, .positions = positions};
  const Tensor factors = apply_dropout(at::ones_like(x), dropout);
  const Tensor want = at::matmul(x, layer.weight.value().t()) +
                      at::matmul(at::matmul(x * factors, layer.lora_a.value().t()), layer.lora_b.value().t()) * 0.7;
  EXPECT_LT(relative_difference(layer(x, /*deterministic=*/false, dropout), want), 1e-6);
  EXPECT_GT(factors.eq(0).sum().item<int64_t>(), 20);
}

TEST(AdapterDropout, WithProbabilityZeroIsBitwiseThePlainPass) {
  const ModelWeights model = adapted_model();
  EXPECT_TRUE(thinned_states(model, 0).equal(plain_states(model)));
  EXPECT_GT(relative_difference(thinned_states(model, 0.3), plain_states(model)), 1e-2);
}

TEST(AdapterDropout, HasTheGradientOfFiniteDifferencesForFixedNoise) {
  const ModelWeights model = adapted_model();
  const std::vector<Tensor> analytic = thinned_gradients(model, 0.3);
  const at::NoGradGuard no_grad;
  const Tensor weight = random_normal(thinned_states(model, 0.3).sizes(), 9);
  const auto parts = model.adapter();
  for (size_t i = 0; i < parts.size(); i += 3) {
    const Tensor direction = random_normal(parts[i].value.sizes(), 100 + i);
    const auto loss_at = [&](double step) {
      Tensor(parts[i].value).add_(direction, step);
      const double loss = (thinned_states(model, 0.3) * weight).sum(at::kDouble).item<double>();
      Tensor(parts[i].value).add_(direction, -step);
      return loss;
    };
    constexpr double kStep = 8e-4;  // five points, because the loss is strongly nonlinear
    const double slope =
        (8 * (loss_at(kStep) - loss_at(-kStep)) - (loss_at(2 * kStep) - loss_at(-2 * kStep))) / (12 * kStep);
    const double got = (analytic[i] * direction).sum(at::kDouble).item<double>();
    EXPECT_NEAR(got, slope, 5e-3 * std::max(1.0, std::abs(slope))) << parts[i].name;
  }
}

TEST(AdapterDropout, IsTheSameWithActivationCheckpointing) {
  const ModelWeights model = adapted_model();
  const std::vector<Tensor> kept = thinned_gradients(model, 0.3);
  const std::vector<Tensor> again = thinned_gradients({model, {.recompute_activations = true}}, 0.3);
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(again[i].equal(kept[i])) << model.adapter()[i].name;
}

}  // namespace
}  // namespace keel
