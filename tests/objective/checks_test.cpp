#include "keel/objective/checks.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace keel {
namespace {

Tensor floats(std::vector<double> values) { return at::tensor(values, at::kDouble).to(at::kFloat); }
Tensor flags(std::vector<int64_t> values) { return at::tensor(values, at::kLong).to(at::kBool); }

LossInputs valid_inputs() {
  return {.logp = floats({-1, -0.5, -2}), .behavior_logp = floats({-1, -0.6, -2}), .advantages = floats({1, -1, 1})};
}

/// The error message (exit code 2).
std::string error_message(const LossInputs& policy, const Requirements& needs = {}) {
  return error_of(2, [&] { check_loss_inputs(policy, needs); });
}

TEST(Checks, AcceptValidInput) {
  check_loss_inputs(valid_inputs(), {});
  LossInputs at_the_edge = valid_inputs();
  at_the_edge.logp = floats({0, -1e30, -0.0});
  check_loss_inputs(at_the_edge, {});
}

TEST(Checks, NameTheArgumentAndTheFirstInvalidIndex) {
  const double nan = std::nan(""), inf = kUnlimited;
  for (const double bad : {nan, inf, -inf, 1e-6}) {
    LossInputs policy = valid_inputs();
    policy.behavior_logp = floats({-1, bad, bad});
    EXPECT_THAT(error_message(policy), testing::StartsWith("behavior_logp[1] is "));
    policy.mask = flags({1, 0, 1});
    EXPECT_THAT(error_message(policy), testing::StartsWith("behavior_logp[2] is "));
    policy.mask = flags({1, 0, 0});
    check_loss_inputs(policy, {});
  }
}

TEST(Checks, RequireOtherLogpToMatchTheToken) {
  LossInputs policy = valid_inputs();
  policy.other_logp = (1 - policy.logp.exp()).log();
  policy.behavior_other_logp = (1 - policy.behavior_logp.exp()).log();
  check_loss_inputs(policy, {});
  policy.logp = floats({-1, 0, -2});
  policy.other_logp = floats({-0.4586751, -kUnlimited, -0.1454135});  // -inf for a token of probability 1
  check_loss_inputs(policy, {});
  policy.other_logp = floats({-0.4586751, -0.1, -0.1454135});
  EXPECT_THAT(error_message(policy), testing::StartsWith("other_logp[1] is -0.1; expected log(1 - exp(logp))"));
  policy.other_logp = floats({-0.4586751, 1e-3, -0.1454135});
  EXPECT_THAT(error_message(policy), testing::StartsWith("other_logp[1] is 0.001"));
  policy.other_logp = floats({-0.4586751});
  EXPECT_THAT(error_message(policy), testing::StartsWith("other_logp has the shape [1]"));
  policy.other_logp = Tensor();
  policy.behavior_other_logp = floats({-0.4586751, std::nan(""), -0.1454135});
  EXPECT_THAT(error_message(policy), testing::StartsWith("behavior_other_logp[1] is "));
  policy.mask = flags({1, 0, 1});
  check_loss_inputs(policy, {});
}

TEST(Checks, RequireOneTypeDeviceAndShape) {
  LossInputs policy = valid_inputs();
  policy.logp = policy.logp.to(at::kHalf);
  EXPECT_THAT(error_message(policy), HasSubstr("logp is Half; expected float32 or float64"));
  policy = valid_inputs();
  policy.advantages = policy.advantages.to(at::kDouble);
  EXPECT_THAT(error_message(policy), HasSubstr("advantages is Double"));
  policy = valid_inputs();
  policy.behavior_logp = floats({-1, -1});
  EXPECT_THAT(error_message(policy), HasSubstr("behavior_logp has the shape [2]; expected [3]"));
  policy = valid_inputs();
  policy.lengths = {1, 1};
  EXPECT_THAT(error_message(policy), HasSubstr("lengths add up to 2, but there are 3 tokens"));
  policy.lengths = {3, -1};
  EXPECT_THAT(error_message(policy), HasSubstr("lengths[1] is -1"));
  policy.lengths = {4, 1};
  EXPECT_THAT(error_message(policy), HasSubstr("lengths[0] is 4"));
}

TEST(Checks, RequireTheInputsOfTheRegion) {
  EXPECT_THAT(error_message(valid_inputs(), {.recomputed_logp = true}), testing::StartsWith("old_logp is not given"));
  EXPECT_THAT(error_message(valid_inputs(), {.top_k = 2}), testing::StartsWith("topk_behavior_logp is not given"));
  EXPECT_THAT(error_message(valid_inputs(), {.hidden_states = true}), testing::StartsWith("divergence is not given"));
}

TEST(Checks, RejectRowsThatAreNotDistributions) {
  LossInputs policy = valid_inputs();
  const auto rows = [](double second) { return at::tensor({0.5, 0.2, 0.6, 0.3, 0.1, second}).view({3, 2}).log(); };
  policy.logp = policy.behavior_logp = rows(0.05).select(1, 0).to(at::kFloat);  // the first of each row
  policy.topk_behavior_logp = rows(0.05).to(at::kFloat);
  policy.topk_logp = rows(0.95).to(at::kFloat);  // 0.1 + 0.95 > 1
  policy.sampled_in_topk = flags({1, 1, 1});
  EXPECT_THAT(error_message(policy, {.top_k = 2}), testing::StartsWith("topk_logp[2] is 1.05"));
  policy.topk_logp = rows(0.8).to(at::kFloat);
  check_loss_inputs(policy, {.top_k = 2});
}

TEST(Checks, RejectARowWithoutTheSampledTokenThatItClaims) {
  LossInputs policy{.logp = floats({-1, -1}), .behavior_logp = floats({-1, -1}), .advantages = floats({1, 1})};
  policy.topk_behavior_logp = policy.topk_logp = floats({-1, -2, -3, -2}).view({2, 2});
  policy.sampled_in_topk = flags({1, 1});
  EXPECT_THAT(error_message(policy, {.top_k = 2}), testing::StartsWith("sampled_in_topk[1] is 1; expected 0"));
  policy.sampled_in_topk = flags({1, 0});
  check_loss_inputs(policy, {.top_k = 2});
  policy.topk_logp =
      floats({-2, -1, -3, -2}).view({2, 2});  // the two log-probs of the sampled token at different indices
  EXPECT_THAT(error_message(policy, {.top_k = 2}), testing::StartsWith("sampled_in_topk[0]"));
}

TEST(Checks, AcceptFlagsThatAreBooleansOrZeroAndOne) {
  const Tensor like = floats({0, 0, 0});
  const auto complaint_about = [&](const Tensor& given) {
    return error_of(2, [&] { as_bool_flags("mask", given, like); });
  };
  EXPECT_TRUE(as_bool_flags("mask", floats({1, 0, 1}), like).equal(flags({1, 0, 1})));
  EXPECT_TRUE(as_bool_flags("mask", flags({1, 0, 1}), like).equal(flags({1, 0, 1})));
  EXPECT_THAT(complaint_about(floats({1, 0.5, 1})), testing::StartsWith("mask[1] is 0.5"));
  EXPECT_THAT(complaint_about(floats({1, 0, std::nan("")})), testing::StartsWith("mask[2] is nan"));
  EXPECT_THAT(complaint_about(floats({1, 0})), HasSubstr("the shape [2]; expected [3]"));
}

TEST(Checks, RequireOneAdvantagePerSequenceForSequenceLevelWeights) {
  LossInputs policy = valid_inputs();  // advantages 1, -1, 1
  policy.lengths = {1, 2};
  const auto complaint_of = [&](const TrustRegion& region) {
    return error_of(2, [&] { check_region_inputs(region, policy, "gspo"); });
  };
  for (const TrustRegion& region : std::vector<TrustRegion>{Gspo{}, Gmpo{}, Vespo{}, Topr{}, DsV32{}})
    EXPECT_THAT(complaint_of(region), testing::StartsWith("advantages[2] is 1, but advantages[1]"));
  for (const TrustRegion& region : std::vector<TrustRegion>{Dppo{}, TrmMax{}, Tvpo{}, Cppo{}})
    check_region_inputs(region, policy, "another");
  policy.mask = flags({1, 1, 0});
  check_region_inputs(Gspo{}, policy, "gspo");
}

TEST(Checks, RequireAHorizonWithoutNegativeCppoWeights) {
  // w_t = 1 - (1 - w_min)(t - 1)/(T - 1): 0 for t = T and w_min = 0, below 0 for t > T.
  EXPECT_FALSE((Cppo{.w_min = 0, .horizon = 8}.has_negative_weight(8)));
  EXPECT_TRUE((Cppo{.w_min = 0, .horizon = 8}.has_negative_weight(9)));
  EXPECT_FALSE((Cppo{.w_min = 0.5, .horizon = 8}.has_negative_weight(15)));  // 1 - 0.5 * 14/7
  EXPECT_TRUE((Cppo{.w_min = 0.5, .horizon = 8}.has_negative_weight(16)));
  EXPECT_FALSE((Cppo{.w_min = 0}.has_negative_weight(1e6)));
  const LossInputs policy = valid_inputs();
  EXPECT_THAT(error_of(2, [&] { check_region_inputs(Cppo{.w_min = 0, .horizon = 2}, policy, "cppo"); }),
              testing::StartsWith("cppo: sequence 0: horizon is 2, too short for 3 tokens"));
}

}  // namespace
}  // namespace keel
