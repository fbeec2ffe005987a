#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "keel/objective/methods.h"
#include "keel/objective/regions/region_parameters.h"
#include "tests/objective/written_objectives.h"
#include "tests/support/effort.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

/// Uniform numbers of [low, high).
Tensor uniform(at::IntArrayRef shape, double low, double high) {
  return at::rand(shape, at::kDouble) * (high - low) + low;
}

/// Log-probs from -120 to 0, often at a bound or equal to each other; advantages 0, normal, tiny and huge.
LossInputs edge_tokens(int64_t count, uint64_t seed, at::ScalarType type) {
  at::manual_seed(seed);
  const auto log_probs = [&](at::IntArrayRef shape) {
    const Tensor kind = at::rand(shape, at::kDouble);
    const Tensor wide = uniform(shape, -120, 0), likely = -(uniform(shape, -30, 0).exp());
    return at::where(kind < 0.1, at::zeros_like(wide), at::where(kind < 0.5, likely, wide)).to(type);
  };
  const Tensor kind = at::rand({count}, at::kDouble), size = (uniform({count}, -30, 14)).exp();
  const Tensor signs = at::where(at::rand({count}) < 0.5, at::ones({count}), -at::ones({count}));
  LossInputs p{log_probs({count}), log_probs({count}),
               (signs * size).masked_fill(kind < 0.1, 0).masked_fill(kind > 0.95, 1e6).to(type)};
  p.behavior_logp = at::where(at::rand({count}) < 0.1, p.logp, p.behavior_logp);
  p.old_logp = log_probs({count});
  p.mask = at::rand({count}) < 0.9;
  p.lengths.assign(static_cast<size_t>(count / 10), 10);
  for (int64_t s = 0; s < count / 10; ++s) p.groups.push_back(s / 100);
  p.topk_behavior_logp = log_probs({count, 3}) - 1.2;
  p.topk_logp = log_probs({count, 3}) - 1.2;
  p.sampled_in_topk = at::rand({count}) < 0.5;
  p.divergence = uniform({count}, 0, 1).to(type);
  return p;
}

TEST(EveryMethod, GivesFiniteCoefficientsForExtremeTokens) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const LossInputs policy = edge_tokens(count(20000, 100000), 7, type);
    for (const Method& row : methods()) {
      const TokenDecision decision = token_coefficients(row.region, policy);
      EXPECT_TRUE(decision.coefficient.isfinite().all().item<bool>()) << row.name << " " << c10::toString(type);
      EXPECT_FALSE(decision.divergence.isnan().any().item<bool>()) << row.name << " " << c10::toString(type);
      EXPECT_FALSE(decision.threshold.isnan().any().item<bool>()) << row.name << " " << c10::toString(type);
      EXPECT_EQ(decision.coefficient.scalar_type(), type) << row.name;
      EXPECT_EQ(decision.outside.any().item<bool>(), properties(row.region).has_boundary) << row.name;
      EXPECT_EQ(decision.coefficient.masked_select(policy.mask.logical_not()).abs().sum().item<double>(), 0);
      // Their penalty also applies to blocked tokens.
      if (std::holds_alternative<Ipo>(row.region) || std::holds_alternative<PrimeRlDefault>(row.region)) continue;
      const Tensor blocked = decision.keep.logical_not();
      EXPECT_EQ(decision.coefficient.masked_select(blocked).abs().sum().item<double>(), 0) << row.name;
    }
  }
}

/// Tokens [begin, begin + count) of a larger batch, split into new sequences.
LossInputs part_of(const LossInputs& p, int64_t begin, int64_t count, std::mt19937_64& random) {
  LossInputs part = p;
  for (Tensor* tensor : {&part.logp, &part.behavior_logp, &part.advantages, &part.mask, &part.old_logp,
                         &part.topk_behavior_logp, &part.topk_logp, &part.sampled_in_topk, &part.divergence})
    *tensor = tensor->narrow(0, begin, count);
  part.lengths.clear();
  part.groups.clear();
  for (int64_t left = count; left > 0; left -= part.lengths.back()) {
    part.lengths.push_back(std::min<int64_t>(static_cast<int64_t>(random() % 6), left));  // includes empty sequences
    part.groups.push_back(static_cast<int64_t>(random() % 3));
  }
  return part;
}

TEST(EveryMethod, GivesFiniteCoefficientsForSmallExtremeBatches) {
  constexpr int64_t kPool = 20000, kLongest = 12;
  const int64_t batches = count(10000, 100000);
  std::mt19937_64 random(5);
  const LossInputs pools[] = {edge_tokens(kPool, 3, at::kFloat), edge_tokens(kPool, 4, at::kDouble)};
  for (int64_t i = 0; i < batches; ++i) {
    const Method& row = methods()[static_cast<size_t>(i) % methods().size()];
    const int64_t count = 1 + static_cast<int64_t>(random() % kLongest);
    const int64_t begin = static_cast<int64_t>(random() % (kPool - count));
    const LossInputs batch = part_of(pools[random() % 2], begin, count, random);
    ASSERT_TRUE(token_coefficients(row.region, batch).coefficient.isfinite().all().item<bool>())
        << row.name << ", tokens from " << begin << ", " << count;
  }
}

TEST(EveryMethod, AcceptsAnEmptyBatch) {
  const LossInputs nothing = edge_tokens(0, 1, at::kFloat);
  for (const Method& row : methods())
    EXPECT_EQ(token_coefficients(row.region, nothing).coefficient.numel(), 0) << row.name;
}

TEST(SequenceMethods, RejectLengthsThatDoNotAddUp) {
  LossInputs policy = edge_tokens(20, 1, at::kFloat);
  policy.lengths = {10, 9};
  EXPECT_THAT(error_of(70, [&] { token_coefficients(Gspo{}, policy); }), HasSubstr("20 tokens"));
  policy.lengths = {10, 10};
  policy.groups = {0};
  EXPECT_THAT(error_of(70, [&] { token_coefficients(Tvpo{}, policy); }), HasSubstr("2 sequences"));
}

TEST(Dppo, NeverBlocksAnUpdateTowardsTheSamplingPolicy) {
  int blocked = 0;
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const LossInputs p = edge_tokens(100000, 11, type);
    const Tensor towards = (p.advantages > 0)
                               .logical_and(p.logp <= p.behavior_logp)
                               .logical_or((p.advantages < 0).logical_and(p.logp >= p.behavior_logp))
                               .logical_or(p.advantages == 0);
    for (const char* name : {"dppo_tv", "dppo_kl", "dppo_topk_tv", "dppo_topk_kl", "dppo_full_tv", "dppo_full_kl"}) {
      const TokenDecision decision = token_coefficients(make_region(name, Json::object()), p);
      EXPECT_TRUE(decision.keep.masked_select(towards).all().item<bool>()) << name;
      blocked += decision.keep.logical_not().sum().item<int>();
    }
  }
  EXPECT_GT(blocked, 10000);
}

TEST(Drpo, HasWeightZeroAtTheBoundaryAndIsContinuousThere) {
  const double delta = 0.25, mu = 0.5, eps = 1e-7;
  for (const double advantage : {2.0, -3.0}) {
    const auto g = [&](double distance) {
      const double pi = mu + (advantage > 0 ? distance : -distance);
      const LossInputs p{at::full({1}, std::log(pi), at::kDouble), at::full({1}, std::log(mu), at::kDouble),
                         at::full({1}, advantage, at::kDouble)};
      return token_coefficients(Drpo{.delta = delta}, p).coefficient.item<double>();
    };
    EXPECT_NEAR(g(delta), 0, 1e-14);
    EXPECT_GT(g(delta - eps) * advantage, 0);
    EXPECT_LT(g(delta + eps) * advantage, 0);
    for (double distance = 0; distance < 0.45; distance += 0.01)  // continuous: |dg| <= |A| (1 + r + r/delta) d
      EXPECT_NEAR(g(distance), g(distance + eps), 40 * eps) << distance;
  }
}

TEST(WrittenObjectives, HaveTheCoefficientAsDerivative) {
  struct Row {
    const char* method;
    Json params;
  };
  const double step = 1e-5;
  int checked = 0;
  for (const Row& row : {Row{"spo", {{"eps", 0.2}}}, Row{"drpo", {{"delta", 0.5}}}, Row{"drpo", {{"delta", 0.05}}},
                         Row{"sapo", {{"tau_positive", 1.0}, {"tau_negative", 1.05}}}, Row{"dro", {{"beta", 0.1}}},
                         Row{"gspo", {{"low", 0.3}, {"high", 0.4}}}, Row{"gmpo", {{"low", 0.4}, {"high", 0.4}}},
                         Row{"tv_penalty", {{"weight", 0.15}}}, Row{"k3_penalty", {{"weight", 0.15}}},
                         Row{"drpo_no_abs_advantage", {{"delta", 0.5}}},
                         Row{"ppo_clip", {{"low", 0.2}, {"high", 0.3}, {"dual", 3.0}}}}) {
    const TrustRegion region = make_region(row.method, row.params);
    for (uint64_t seed = 0; seed < 40; ++seed) {
      at::manual_seed(seed);
      const int64_t length = 6;
      const Tensor mu = uniform({length}, -3, -0.6), logp = mu + uniform({length}, -0.5, 0.5);
      WrittenTokens x;
      x.logp = to_vector(logp), x.behavior_logp = x.old_logp = to_vector(mu);
      x.advantages.assign(length, seed % 2 == 0 ? 1.5 : -0.7);
      x.keep.assign(length, true), x.valid.assign(length, true), x.params = row.params;
      const LossInputs policy{logp, mu, at::tensor(x.advantages, at::kDouble)};
      const std::vector<double> g = to_vector(token_coefficients(region, policy).coefficient);
      const auto total = [&](size_t t, double change) {
        WrittenTokens y = x;
        y.logp[t] += change;
        return sum_over_valid(y, [&](size_t u) { return written_objectives().at(row.method)(y, u); });
      };
      for (size_t t = 0; t < g.size(); ++t) {
        EXPECT_NEAR(g[t], (total(t, step) - total(t, -step)) / (2 * step), 2e-7) << row.method << " " << seed;
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, 11 * 40 * 6);
}

}  // namespace
}  // namespace keel
