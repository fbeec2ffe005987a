#include "keel/ops/precision.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "keel/ops/lm_head.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

constexpr at::ScalarType kNarrow[] = {at::kBFloat16, at::kHalf};

TEST(Parameter, IsOneTensorInFloat32AndWhereItIsFrozen) {
  Parameter trained(at::ones({2}).requires_grad_()), frozen(at::ones({2}));
  EXPECT_FALSE(trained.is_rounded());
  trained.compute_in(at::kBFloat16), frozen.compute_in(at::kBFloat16);
  EXPECT_TRUE(trained.is_rounded());
  EXPECT_EQ(trained.master.scalar_type(), at::kFloat);
  EXPECT_EQ(trained.compute.scalar_type(), at::kBFloat16);
  EXPECT_FALSE(frozen.is_rounded());
  EXPECT_EQ(frozen.master.scalar_type(), at::kBFloat16);  // nothing wider is held
}

// 1 + 2^-9 is no number of bf16: a sum there would stay at 1. Of fp16's numbers 1 + 2^-12 is none.
TEST(Parameter, AddsTheGradientsOfSeveralPassesInFloat32) {
  for (const at::ScalarType type : kNarrow) {
    Parameter weight(at::ones({1, 1}).requires_grad_());
    weight.compute_in(type);
    const double small = type == at::kHalf ? 0x1p-12 : 0x1p-9;
    for (const double x : {1.0, small}) at::linear(at::full({1, 1}, x, type), weight.forward()).sum().backward();
    EXPECT_EQ(weight.master.grad().scalar_type(), at::kFloat);
    EXPECT_EQ(weight.master.grad().item<double>(), 1 + small);
  }
}

TEST(Parameter, GivesThePlainTensorWhereNobodyAsksForGradients) {
  Parameter weight(at::ones({2, 2}).requires_grad_());
  weight.compute_in(at::kBFloat16);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(weight.forward().is_same(weight.compute));
}

// A log-probability that came through logits of bf16, 2^-8 apart, would be wrong in its third digit.
TEST(LmHeadInLowPrecision, RoundsWeightsAndStatesAndNothingElse) {
  for (const at::ScalarType type : kNarrow) {
    const int64_t vocabulary = 37, rows = 12;
    Parameter weight((random_normal({vocabulary, 16}, 1)).requires_grad_());
    weight.compute_in(type);
    const Tensor hidden = random_normal({rows, 16}, 2).to(type), targets = at::arange(rows, at::kLong) * 3;
    const Tensor c = random_normal({rows}, 3);
    const LmHead head(weight, {.temperature = 0.7, .chunk_rows = 5});

    const Tensor w = weight.compute.to(at::kDouble).requires_grad_(), h = hidden.to(at::kDouble).requires_grad_();
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
    EXPECT_LT(relative_difference(weight.master.grad(), w.grad()), 1e-5);
  }
}

}  // namespace
}  // namespace keel
