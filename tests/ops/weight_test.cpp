#include "keel/ops/weight.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "keel/ops/lm_head.h"
#include "tests/support/linear_gradient_case.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

constexpr at::ScalarType kNarrow[] = {at::kBFloat16, at::kHalf};

// A bf16 sum of 1 and 2^-9 stays 1, and so does an fp16 sum of 1 and 2^-12.
TEST(Weight, AccumulatesGradientsInFloat32) {
  for (const at::ScalarType type : kNarrow) {
    const Weight weight(at::ones({1, 1}, type));
    const GradientSinks gradients({{"weight", weight}});
    const double small = type == at::kHalf ? 0x1p-12 : 0x1p-9;
    for (const double x : {1.0, small}) weight.linear(at::full({1, 1}, x, type)).sum().backward();
    EXPECT_EQ(gradients.sums()[0].scalar_type(), at::kFloat);
    EXPECT_EQ(gradients.sums()[0].item<double>(), 1 + small);
    gradients.clear();
    for (const double x : {1.0, small}) (weight.embed(at::zeros({1}, at::kLong), -1).sum() * x).backward();
    EXPECT_EQ(gradients.sums()[0].item<double>(), 1 + small);
  }
}

TEST(Weight, GradientsOfLinearLayersAreNotRounded) { expect_float32_gradients_of_linear_layers(at::kCPU); }
TEST(Weight, GradientsOfAdaptersAreNotRounded) { expect_float32_gradients_of_adapters(at::kCPU); }

TEST(Weight, GetsGradientsWhileASinkExistsAndAutogradIsEnabled) {
  const Weight weight(at::ones({2, 2}));
  {
    const GradientSinks gradients({{"weight", weight}});
    EXPECT_TRUE(weight.forward().requires_grad());
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(weight.forward().is_same(weight.value()));
  }
  EXPECT_TRUE(weight.forward().is_same(weight.value()));
}

// Log-probs from bf16 logits, 2^-8 apart, would be wrong in the third digit.
TEST(LmHeadInLowPrecision, RoundsOnlyWeightsAndHiddenStates) {
  for (const at::ScalarType type : kNarrow) {
    const int64_t vocabulary = 37, rows = 12;
    const Weight weight(random_normal({vocabulary, 16}, 1).to(type));
    const GradientSinks gradients({{"weight", weight}});
    const Tensor hidden = random_normal({rows, 16}, 2).to(type), targets = at::arange(rows, at::kLong) * 3;
    const Tensor c = random_normal({rows}, 3);
    const LmHead head(weight, {.temperature = 0.7, .chunk_rows = 5});

    const Tensor w = weight.value().to(at::kDouble).requires_grad_(), h = hidden.to(at::kDouble).requires_grad_();
    const Tensor logp = at::log_softmax(at::linear(h, w) / 0.7, -1).gather(1, targets.unsqueeze(1)).squeeze(1);
    (-(logp * c.to(at::kDouble)).sum()).backward();

    const TokenStats stats = head.statistics(hidden, targets);
    EXPECT_EQ(stats.logp.scalar_type(), at::kFloat);
    EXPECT_LT(largest_difference(stats.logp, logp), 1e-5);
    const Tensor dh = head.backward(hidden, targets, Scope::kToken, [&](const TokenStats&, int64_t begin, int64_t end) {
      return HeadCoefficients{c.narrow(0, begin, end - begin), {}};
    });
    EXPECT_EQ(dh.scalar_type(), at::kFloat);
    EXPECT_LT(relative_difference(dh, h.grad()), 1e-5);
    EXPECT_LT(relative_difference(gradients.sums()[0], w.grad()), 1e-5);
  }
}

TEST(GradientSinks, RejectASecondOwnerOfAWeight) {
  const std::vector<NamedWeight> weights = {{"weight", at::ones({2})}};
  const GradientSinks first(weights);
  EXPECT_THROW(GradientSinks{weights}, std::logic_error);
}

}  // namespace
}  // namespace keel
