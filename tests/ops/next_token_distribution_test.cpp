#include "keel/ops/next_token_distribution.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "keel/ops/lm_head.h"
#include "tests/support/errors.h"
#include "tests/support/hard_logits.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// A head whose logits are the given finite rows; the hidden state of row i is the i-th unit vector.
LmHead head_with(const Tensor& logits, double temperature) {
  return LmHead(logits.t().contiguous(), {.temperature = temperature, .chunk_rows = 16});
}
Tensor unit_vectors(const Tensor& logits) { return at::eye(logits.size(0)); }

TEST(LmHead, NormalisesWithoutBias) {
  for (const std::string& kind : kHardLogits) {
    for (const int64_t vocab : kVocabularies) {
      for (const double temperature : kTemperatures) {
        SCOPED_TRACE(kind + ", vocabulary " + std::to_string(vocab) + ", temperature " + std::to_string(temperature));
        const int64_t rows = kRowsAtATime, count = 64;
        const Tensor targets = at::arange(rows, at::kLong) * 7 % vocab;
        const Tensor ids = (at::arange(rows * count, at::kLong) * 7919 % vocab).view({rows, count});
        LogProbErrors errors;
        // In a one-hot row almost all tokens are the same.
        for (int64_t seed = 0; seed < (kind == "one_hot" ? kRowsForAMean / rows : 3); ++seed) {
          const Tensor logits = hard_logits(kind, rows, vocab, seed);
          const TokenStats stats =
              head_with(logits, temperature).statistics(unit_vectors(logits), targets, {.topk_ids = ids});
          const Tensor logps = at::log_softmax(logits.to(at::kDouble) / temperature, 1);
          errors.add(stats.topk_logp, logps.gather(1, ids));
          EXPECT_LT(largest_difference(stats.logp, logps.gather(1, targets.unsqueeze(1)).squeeze(1)), 4e-6);
          EXPECT_LT(relative_difference(stats.entropy, -(logps.exp() * logps).sum(1)), 3e-7);
        }
        errors.expect_no_bias();
      }
    }
  }
}

TEST(LmHead, OtherLogProbIsAccurateForProbabilitiesNearOne) {
  const int64_t vocab = 1000;
  const std::vector<double> others{1e-1, 1e-6, 1e-9, 1e-12, 1e-30, 1e-60, 1e-300};  // 1 - p of the first token
  const int64_t rows = static_cast<int64_t>(others.size());
  Tensor logits = random_normal({rows, vocab}, 3);
  for (int64_t row = 0; row < rows; ++row)
    logits[row][0] = logits[row].slice(0, 1).to(at::kDouble).logsumexp(0) - std::log(others[row]);
  for (const int64_t target : {0, 5}) {
    const Tensor targets = at::full({rows}, target, at::kLong);
    const ExactLogProbs want(logits, 1, targets);
    const TokenStats stats = head_with(logits, 1).statistics(unit_vectors(logits), targets);
    for (int64_t row = 0; row < rows; ++row) {
      SCOPED_TRACE(std::to_string(row) + ", token " + std::to_string(target));
      const double logp = stats.logp[row].item<double>(), other = stats.other_logp[row].item<double>();
      const double want_logp = want.logp[row].item<double>(), want_other = want.other_logp[row].item<double>();
      if (target == 0) {
        EXPECT_NEAR(other / want_other, 1, 1e-6);
      } else {  // tiny p, so 1 - p is almost 1
        EXPECT_NEAR(other, want_other, 1e-7);
        EXPECT_NEAR(logp / want_logp, 1, 1e-6);
      }
      if (target == 0 && others[row] > 1e-40) {
        EXPECT_NEAR(logp / -others[row], 1, others[row] + 1e-5);
      }
    }
  }
}

TEST(NextTokenDistribution, OtherLogProbIsExactForTiesAndMaskedTokens) {
  const float never = -std::numeric_limits<float>::infinity();
  const Tensor logits = at::tensor({2.0f, 2.0f, never, 1.0f, never, never, 0.0f, 0.0f, 0.0f}).view({3, 3});
  const NextTokenDistribution next(logits, 1.0);
  const auto other_of = [&](int64_t token) {
    return to_vector(next.log_probs(at::full({3}, token, at::kLong)).other_logp);
  };
  EXPECT_NEAR(other_of(0)[0], std::log(0.5), 1e-7);
  EXPECT_NEAR(other_of(1)[0], std::log(0.5), 1e-7);
  EXPECT_EQ(other_of(2)[0], 0);  // masked: 1 - p is 1
  EXPECT_EQ(other_of(0)[1], -kInfinite);
  EXPECT_EQ(other_of(1)[1], 0);
  EXPECT_NEAR(other_of(2)[2], std::log(2.0 / 3), 1e-7);
  const NextTokenDistribution only(at::full({1, 1}, 7.0), 1.0);
  EXPECT_EQ(only.log_probs(int64_tensor({0})).logp.item<float>(), 0);
  EXPECT_EQ(only.log_probs(int64_tensor({0})).other_logp.item<float>(), -kInfinite);
  EXPECT_EQ(only.entropy().item<float>(), 0);
}

TEST(LmHead, GradientIsAccurateForProbabilitiesNearOne) {
  // At p = 1 - 1e-9 a float32 p - 1 is 0 or has a relative error of 100.
  const int64_t vocab = 40;
  for (const double gap : {3.0, 14.0, 24.0, 31.0}) {
    Tensor logits = random_normal({4, vocab}, 5);
    logits.select(1, 7) += gap;
    const Tensor targets = int64_tensor({7, 7, 3, 7}), hidden = unit_vectors(logits);
    const auto gradient =
        head_with(logits, 0.9).backward(hidden, targets, Scope::kToken, [](const TokenStats& stats, int64_t, int64_t) {
          return HeadCoefficients{at::ones_like(stats.logp), {}};
        });
    const Tensor weight = logits.t().to(at::kDouble);
    const Tensor probabilities = at::softmax(logits.to(at::kDouble) / 0.9, 1);
    const Tensor others = probabilities.clone().scatter_(1, targets.unsqueeze(1), 0);
    // d(-log p_t)/dz_j = p_j, and for the target minus the sum over the others, without cancellation.
    const Tensor want = (others - at::zeros_like(others).scatter_(1, targets.unsqueeze(1), others.sum(1, true)))
                            .div(0.9)
                            .matmul(weight);
    for (int64_t row = 0; row < 4; ++row)
      EXPECT_LT(relative_difference(gradient[row], want[row]), 1e-4) << gap << " row " << row;
  }
}

TEST(LmHead, RowsThatAreNotDistributionsGiveNaN) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  const auto ones = [](const TokenStats& stats, int64_t, int64_t) -> HeadCoefficients {
    return {at::ones_like(stats.logp), {}};
  };
  for (const std::vector<float>& bad : std::vector<std::vector<float>>{{nan, 0, 0},
                                                                       {0, nan, 0},
                                                                       {0, 0, nan},
                                                                       {nan, -inf, -inf},
                                                                       {-inf, 1, nan},
                                                                       {inf, 0, 0},
                                                                       {0, inf, inf},
                                                                       {-inf, -inf, -inf},
                                                                       {nan, nan, nan},
                                                                       {inf, -inf, -inf}}) {
    const Tensor logits =
        at::cat({at::tensor(bad), at::zeros({30})}).narrow(0, 0, bad == std::vector<float>(3, -inf) ? 3 : 33);
    for (const Tensor& row : {at::tensor(bad), logits}) {
      const NextTokenDistribution next(row.unsqueeze(0).clone(), 1.0);
      for (int64_t token = 0; token < 3; ++token) {
        SCOPED_TRACE(testing::PrintToString(bad) + " token " + std::to_string(token));
        const auto [logp, other_logp] = next.log_probs(int64_tensor({token}));
        EXPECT_TRUE(std::isnan(logp.item<float>()));
        EXPECT_TRUE(std::isnan(other_logp.item<float>()));
      }
      EXPECT_TRUE(std::isnan(next.entropy().item<float>()));
    }
  }
  const Tensor weight = at::tensor({nan, 1.0f, 2.0f}).view({3, 1});
  EXPECT_TRUE(
      LmHead(weight, {}).backward(at::ones({1, 1}), int64_tensor({1}), Scope::kToken, ones).isnan().all().item<bool>());
}

TEST(NextTokenDistribution, MeasuresExactDivergences) {
  for (const int64_t vocab : {2, 26, 5000}) {
    const Tensor pi = random_normal({20, vocab}, 1) * 3, mu = pi + random_normal({20, vocab}, 2) * 0.3;
    const auto [tv, kl] = NextTokenDistribution(pi, 0.8).divergences_from(NextTokenDistribution(mu, 0.8));
    const Tensor log_pi = at::log_softmax(pi.to(at::kDouble) / 0.8, 1),
                 log_mu = at::log_softmax(mu.to(at::kDouble) / 0.8, 1);
    EXPECT_LT(largest_difference(tv, (log_pi.exp() - log_mu.exp()).abs().sum(1) / 2), 2e-7);
    EXPECT_LT(relative_difference(kl, (log_mu.exp() * (log_mu - log_pi)).sum(1)), 1e-6);
    const auto [same_tv, same_kl] =
        NextTokenDistribution(pi, 0.8).divergences_from(NextTokenDistribution(pi + 5, 0.8));
    EXPECT_LT(same_tv.max().item<double>(), 1e-6);
    EXPECT_LT(same_kl.max().item<double>(), 1e-6);
    EXPECT_GE(same_kl.min().item<double>(), 0);
  }
  // mu masks the first token, and pi masks the second.
  const float never = -std::numeric_limits<float>::infinity();
  const NextTokenDistribution pi(at::tensor({0.0f, never, 0.0f}).unsqueeze(0), 1),
      mu(at::tensor({never, 0.0f, 0.0f}).unsqueeze(0), 1);
  EXPECT_EQ(pi.divergences_from(mu).kl.item<double>(), kInfinite);
  EXPECT_NEAR(pi.divergences_from(mu).tv.item<double>(), 0.5, 1e-7);
  const NextTokenDistribution less(at::tensor({never, never, 0.0f}).unsqueeze(0), 1);
  EXPECT_NEAR(pi.divergences_from(less).kl.item<double>(), std::log(2.0), 1e-7);
}

TEST(NextTokenDistribution, RefusesTokensOutsideTheVocabulary) {
  for (const int64_t stray : {-1, 4}) {
    const NextTokenDistribution next(at::zeros({2, 4}), 1.0);
    const Tensor tokens = int64_tensor({0, stray});
    EXPECT_THAT(error_of(3, [&] { next.log_probs(tokens); }),
                AllOf(HasSubstr("vocabulary of 4"), HasSubstr(std::to_string(stray))));
  }
}

}  // namespace
}  // namespace keel
