#include "keel/objective/value_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/support/tensors.h"

namespace keel {
namespace {

Tensor numbers(const std::vector<double>& values) { return at::tensor(values, at::kDouble); }

/// trl/trainer/ppo_trainer.py, for one token: vpredclipped = clamp(vpred, values - c, values + c);
/// vf_losses1 = (vpred - returns)^2; vf_losses2 = (vpredclipped - returns)^2; 0.5 * max(vf_losses1, vf_losses2).
double trl(double vpred, double value, double target, double c) {
  const double clipped = std::clamp(vpred, value - c, value + c);
  return 0.5 * std::max((vpred - target) * (vpred - target), (clipped - target) * (clipped - target));
}

/// v, old, R and the clip 0.2, computed by hand: inside the range; clipped towards R (0.6: 0.4^2 / 2); not clipped away
/// from R (0.9^2 / 2); the same below (0.3: 0.2^2 / 2; 1.5^2 / 2).
TEST(ValueLoss, MatchesAHandComputation) {
  const ValueLoss got = value_loss(numbers({0.5, 0.9, 0.9, 0.0, -0.5}), numbers({0.4, 0.4, 0.4, 0.5, 0.0}),
                                   numbers({1.0, 1.0, 0.0, 0.1, 1.0}), 0.2);
  EXPECT_LT(largest_difference(got.loss, numbers({0.125, 0.08, 0.405, 0.02, 1.125})), 1e-15);
  EXPECT_LT(largest_difference(got.gradient, numbers({-0.5, 0, 0.9, 0, -1.5})), 1e-15);
  EXPECT_EQ(to_vector(got.clipped), (std::vector<double>{0, 1, 0, 1, 0}));
}

TEST(ValueLoss, MatchesTrlAndItsGradientIsTheDerivative) {
  const Tensor values = random_normal({200}, 1, at::kDouble), returns = random_normal({200}, 2, at::kDouble);
  const Tensor old_values = values + 0.3 * random_normal({200}, 3, at::kDouble);
  for (const double clip : {0.05, 0.2, 1.0, std::numeric_limits<double>::infinity()}) {
    const ValueLoss got = value_loss(values, old_values, returns, clip);
    const std::vector<double> v = to_vector(values), old = to_vector(old_values), target = to_vector(returns);
    for (size_t i = 0; i < v.size(); ++i) {
      constexpr double kStep = 1e-7;
      EXPECT_NEAR(got.loss[i].item<double>(), trl(v[i], old[i], target[i], clip), 1e-14);
      const double slope =
          (trl(v[i] + kStep, old[i], target[i], clip) - trl(v[i] - kStep, old[i], target[i], clip)) / (2 * kStep);
      EXPECT_NEAR(got.gradient[i].item<double>(), slope, 1e-6);
    }
    const int64_t clipped = got.clipped.sum().item<int64_t>();
    EXPECT_EQ(clipped > 0, clip < 1.0 || (clip == 1.0 && clipped > 0)) << clip;
  }
}

}  // namespace
}  // namespace keel
