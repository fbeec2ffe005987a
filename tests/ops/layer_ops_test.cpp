// CPU kernels against PyTorch operators in float64: values and gradients.

#include "keel/ops/layer_ops.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace keel {
namespace {

using Inputs = std::vector<Tensor>;
using Operation = std::function<Tensor(const Inputs&)>;

/// Value and gradients of sum(operation(inputs) * upstream) in the given dtype.
Inputs evaluate_in(at::ScalarType type, const Inputs& inputs, const Operation& operation, const Tensor& upstream) {
  Inputs leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.to(type).clone().requires_grad_());
  const Tensor value = operation(leaves);
  (value * upstream.to(type)).sum().backward();
  Inputs result{value.detach()};
  for (const Tensor& leaf : leaves) result.push_back(leaf.grad());
  return result;
}

void expect_equal(const Inputs& inputs, const Operation& ours, const Operation& plain) {
  const Tensor upstream = at::randn_like(plain(inputs));
  const Inputs got = evaluate_in(at::kFloat, inputs, ours, upstream);
  const Inputs want = evaluate_in(at::kDouble, inputs, plain, upstream);
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = ((got[i].to(at::kDouble) - want[i]).norm() / want[i].norm()).item<double>();
    EXPECT_LT(error, 1e-6) << (i == 0 ? "value" : "gradient of input " + std::to_string(i - 1));
  }
}

TEST(LayerOps, AFrozenNormWeightDoesNotChangeTheGradientOfX) {
  const Tensor x = at::randn({37, 40}), weight = at::randn({40}), direction = at::randn({37, 40});
  const auto gradient = [&](bool learns) {
    const Tensor rows = x.clone().requires_grad_(), factor = weight.clone().requires_grad_(learns);
    rms_norm(rows, factor, 1e-5).backward(direction);
    EXPECT_EQ(factor.grad().defined(), learns);
    return rows.grad();
  };
  EXPECT_TRUE(gradient(false).equal(gradient(true)));
}

TEST(LayerOps, RmsNormIsTheRootMeanSquareNorm) {
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{1, 5}, {3, 7}, {37, 64}, {500, 257}}) {
    expect_equal(
        {at::randn({rows, width}) * 3, at::randn({width})}, [](const Inputs& x) { return rms_norm(x[0], x[1], 1e-5); },
        [](const Inputs& x) { return x[0] / (x[0].pow(2).mean(1, true) + 1e-5).sqrt() * x[1]; });
  }
}

TEST(LayerOps, SwigluIsSiluOfGateTimesUp) {
  for (const int64_t rows : {1, 5, 300})
    expect_equal(
        {at::randn({rows, 95}) * 4, at::randn({rows, 95})},
        [](const Inputs& x) { return gated(Activation::kSilu, x[0], x[1]); },
        [](const Inputs& x) { return x[0] * at::sigmoid(x[0]) * x[1]; });
}

TEST(LayerOps, SwigluStaysFiniteAtLargeInputs) {
  const Tensor gate = at::tensor({-1e30f, -200.0f, -80.0f, 0.0f, 80.0f, 200.0f, 1e30f}), up = at::ones_like(gate);
  const Tensor y = gated(Activation::kSilu, gate, up);
  EXPECT_TRUE(y.isfinite().all().item<bool>());
  EXPECT_LT(y[1].abs().item<float>(), 1e-30f);
  EXPECT_EQ(y[5].item<float>(), 200.0f);
}

TEST(LayerOps, RotateRotatesThePairsOfEachHeadByTheRowsAngle) {
  const Tensor angle = at::rand({40, 8}) * 6;
  const Tensor cos = angle.cos(), sin = angle.sin();
  expect_equal(
      {at::randn({40, 3, 16})}, [&](const Inputs& x) { return rotate(x[0], cos, sin); },
      [&](const Inputs& x) {
        // As complex numbers: (first + i second) e^{i angle}.
        const Tensor turned =
            at::complex(x[0].narrow(2, 0, 8).contiguous(), x[0].narrow(2, 8, 8).contiguous()) *
            at::polar(at::ones_like(angle).to(x[0].scalar_type()), angle.to(x[0].scalar_type())).unsqueeze(1);
        return at::cat({at::real(turned), at::imag(turned)}, 2);
      });
}

TEST(LayerOps, DoNotDependOnTheMemoryLayout) {
  const Tensor wide = at::randn({6, 64}), weight = at::randn({32});
  const Tensor view = wide.narrow(1, 16, 32);
  EXPECT_TRUE(at::equal(rms_norm(view, weight, 1e-6), rms_norm(view.contiguous(), weight, 1e-6)));
  EXPECT_TRUE(
      at::equal(gated(Activation::kSilu, view, view), gated(Activation::kSilu, view.contiguous(), view.contiguous())));
}

}  // namespace
}  // namespace keel
