#include "keel/ops/lm_head.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/goldens.h"
#include "tests/support/kept_rows.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

constexpr int64_t kRows = 9, kHidden = 6, kVocab = 13;

/// Hidden states, a head, targets, and coefficients that depend on the token's log-prob.
struct Problem {
  Tensor hidden = random_normal({kRows, kHidden}, 1), weight = random_normal({kVocab, kHidden}, 2);
  Tensor targets = int64_tensor({0, 12, 3, 3, 7, 1, 12, 0, 5});
  Tensor scale = random_normal({kRows}, 3), entropy_scale = random_normal({kRows}, 4) * 0.3;
  double temperature = 1, softcap = 0;
  bool with_entropy = false;
  Tensor excluded = {};  // [kRows, kVocab] bool: tokens that truncated sampling left out, if any

  BehaviorRows behavior() const {
    if (!excluded.defined()) return {};
    return {.kept = to_kept_rows(to_kept_tokens(at::zeros(excluded.sizes()).masked_fill(excluded, -INFINITY)))};
  }
  /// Sets of 13, 1, 5, ... tokens with the target.
  Tensor random_excluded() const {
    const Tensor order = ranks_in_rows(random_normal({kRows, kVocab}, 9).scatter(1, targets.unsqueeze(1), -100));
    return order >= int64_tensor({13, 1, 5, 2, 12, 1, 3, 7, 2}).unsqueeze(1);
  }

  HeadCoefficients coefficients(const Tensor& logp, int64_t begin, int64_t end) const {
    const auto rows = [&](const Tensor& x) { return x.narrow(0, begin, end - begin).to(logp.scalar_type()); };
    return {rows(scale) * logp.exp() + rows(scale), with_entropy ? rows(entropy_scale) : Tensor()};
  }

  struct Gradients {
    Tensor hidden, weight;
  };

  Gradients ours(Scope scope, int64_t chunk_rows) const {
    const Weight w(weight.clone());
    const GradientSinks gradients({{"weight", w}});
    const Tensor gradient = LmHead(w, {.temperature = temperature, .softcap = softcap, .chunk_rows = chunk_rows})
                                .backward(
                                    hidden, targets, scope,
                                    [&](const TokenStats& stats, int64_t begin, int64_t end) {
                                      EXPECT_EQ(stats.logp.size(0), end - begin);
                                      return coefficients(stats.logp, begin, end);
                                    },
                                    behavior());
    return {gradient, gradients.sums()[0]};
  }

  Tensor naive_logits(const Tensor& h, const Tensor& w) const {
    const Tensor raw = h.matmul(w.t()), logits = (softcap > 0 ? softcap * at::tanh(raw / softcap) : raw) / temperature;
    // exp(-1e4) is 0 as exp(-inf) is, but 0 x -1e4 is not NaN in the entropy.
    return excluded.defined() ? logits.masked_fill(excluded, -1e4) : logits;
  }

  /// Reference loss in float64, with constant coefficients computed from `at_logp`.
  Tensor naive_loss(const Tensor& h, const Tensor& w, const Tensor& at_logp) const {
    const Tensor logps = at::log_softmax(naive_logits(h, w), 1);
    const HeadCoefficients c = coefficients(at_logp, 0, kRows);
    Tensor loss = -(c.coefficient * logps.gather(1, targets.unsqueeze(1)).squeeze(1)).sum();
    if (with_entropy) loss = loss + (c.entropy_coefficient * (logps.exp() * logps).sum(1)).sum();
    return loss;
  }

  Tensor naive_logp(const Tensor& h, const Tensor& w) const {
    return at::log_softmax(naive_logits(h, w), 1).gather(1, targets.unsqueeze(1)).squeeze(1).detach();
  }

  Gradients naive() const {
    const Tensor h = hidden.to(at::kDouble).requires_grad_(), w = weight.to(at::kDouble).requires_grad_();
    naive_loss(h, w, naive_logp(h, w)).backward();
    return {h.grad(), w.grad()};
  }
};

class LmHeadBackward : public testing::TestWithParam<std::tuple<double, bool, double>> {
 protected:
  LmHeadBackward() { std::tie(problem_.temperature, problem_.with_entropy, problem_.softcap) = GetParam(); }
  Problem problem_;
};

TEST_P(LmHeadBackward, EqualsAutogradThroughANaiveLossForAnyChunkAndScope) {
  const Problem::Gradients want = problem_.naive();
  for (const Scope scope : {Scope::kToken, Scope::kSequence, Scope::kBatch}) {
    for (const int64_t chunk_rows : {1, 2, 4, 9, 2048}) {
      const Problem::Gradients got = problem_.ours(scope, chunk_rows);
      EXPECT_LT(relative_difference(got.hidden, want.hidden), 2e-6) << chunk_rows;
      EXPECT_LT(relative_difference(got.weight, want.weight), 2e-6) << chunk_rows;
    }
  }
}

TEST_P(LmHeadBackward, EqualsAutogradOfTheTruncatedDistributions) {
  problem_.excluded = problem_.random_excluded();
  const Problem::Gradients want = problem_.naive();
  for (const Scope scope : {Scope::kToken, Scope::kSequence, Scope::kBatch})
    for (const int64_t chunk_rows : {1, 4, 2048}) {
      const Problem::Gradients got = problem_.ours(scope, chunk_rows);
      EXPECT_LT(relative_difference(got.hidden, want.hidden), 2e-6) << chunk_rows;
      EXPECT_LT(relative_difference(got.weight, want.weight), 2e-6) << chunk_rows;
      for (const int64_t single : {1, 5})
        EXPECT_TRUE(got.hidden[single].equal(at::zeros({kHidden}))) << got.hidden[single];
    }
}

TEST_P(LmHeadBackward, EqualsFiniteDifferencesOfTheLoss) {
  const Tensor gradient = problem_.ours(Scope::kToken, 4).hidden;
  const Tensor h = problem_.hidden.to(at::kDouble), w = problem_.weight.to(at::kDouble);
  const Tensor held = problem_.naive_logp(h, w);
  const double step = 1e-5;
  Tensor differences = at::zeros_like(h);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < kHidden; ++i) {
      Tensor up = h.clone(), down = h.clone();
      up[row][i] += step;
      down[row][i] -= step;
      differences[row][i] = (problem_.naive_loss(up, w, held) - problem_.naive_loss(down, w, held)) / (2 * step);
    }
  }
  EXPECT_LT(relative_difference(gradient, differences), 2e-6);
}

INSTANTIATE_TEST_SUITE_P(Of, LmHeadBackward,
                         testing::Combine(testing::Values(1.0, 0.6, 1.7), testing::Bool(), testing::Values(0.0, 2.5)));

TEST(LmHead, AddsToTheGradientUnlessTheWeightIsFrozen) {
  const Problem problem;
  const auto ones = [](const TokenStats& stats, int64_t, int64_t) -> HeadCoefficients {
    return {at::ones_like(stats.logp), {}};
  };
  const Weight w(problem.weight.clone());
  const GradientSinks gradients({{"weight", w}});
  const LmHead head(w, {});
  head.backward(problem.hidden, problem.targets, Scope::kToken, ones);
  const Tensor once = gradients.sums()[0].clone();
  head.backward(problem.hidden, problem.targets, Scope::kToken, ones);
  EXPECT_LT(relative_difference(gradients.sums()[0], once * 2), 1e-6);

  LmHead(problem.weight, {}).backward(problem.hidden, problem.targets, Scope::kToken, ones);  // no sink
}

TEST(LmHeadStatistics, EqualLogSoftmaxInDoubleForAnyChunk) {
  const Problem problem;
  for (const double temperature : {1.0, 0.5, 3.0}) {
    const Tensor logps =
        at::log_softmax(problem.hidden.to(at::kDouble).matmul(problem.weight.to(at::kDouble).t()) / temperature, 1);
    const Tensor logp = logps.gather(1, problem.targets.unsqueeze(1)).squeeze(1);
    const Tensor entropy = -(logps.exp() * logps).sum(1);
    for (const int64_t chunk_rows : {1, 4, 2048}) {
      const TokenStats stats = LmHead(problem.weight, {.temperature = temperature, .chunk_rows = chunk_rows})
                                   .statistics(problem.hidden, problem.targets);
      EXPECT_LT(largest_difference(stats.logp, logp), 2e-6);
      EXPECT_LT(largest_difference(stats.entropy, entropy), 2e-6);
      EXPECT_EQ(stats.logp.scalar_type(), at::kFloat);
    }
  }
}

TEST(LmHeadStatistics, AreOfTheTruncatedDistributions) {
  Problem problem;
  problem.excluded = problem.random_excluded();
  const Tensor behavior_hidden = random_normal({kRows, kHidden}, 21),
               behavior_weight = random_normal({kVocab, kHidden}, 22);
  for (const double temperature : {1.0, 0.6}) {
    problem.temperature = temperature;
    const auto log_probabilities = [&](const Tensor& h, const Tensor& w) {
      return at::log_softmax(problem.naive_logits(h.to(at::kDouble), w.to(at::kDouble)), 1);
    };
    const Tensor pi = log_probabilities(problem.hidden, problem.weight),
                 mu = log_probabilities(behavior_hidden, behavior_weight),
                 logp = pi.gather(1, problem.targets.unsqueeze(1)).squeeze(1);
    BehaviorRows behavior = problem.behavior();
    behavior.topk_ids = std::get<1>(mu.topk(4, 1));
    behavior.hidden = behavior_hidden, behavior.weight = behavior_weight;
    for (const int64_t chunk_rows : {2, 2048}) {
      const TokenStats stats = LmHead(problem.weight, {.temperature = temperature, .chunk_rows = chunk_rows})
                                   .statistics(problem.hidden, problem.targets, behavior);
      EXPECT_LT(largest_difference(stats.logp, logp), 2e-6);
      EXPECT_LT(largest_difference(stats.other_logp.exp(), 1 - logp.exp()), 2e-6);
      EXPECT_LT(largest_difference(stats.entropy, -(pi.exp() * pi).sum(1)), 2e-6);
      EXPECT_LT(largest_difference(stats.topk_logp.exp(), pi.gather(1, behavior.topk_ids).exp()), 2e-6);
      EXPECT_TRUE(stats.topk_logp.isinf().equal(problem.excluded.gather(1, behavior.topk_ids)));
      EXPECT_LT(largest_difference(stats.full_tv, (pi.exp() - mu.exp()).abs().sum(1) / 2), 2e-6);
      EXPECT_LT(largest_difference(stats.full_kl, (mu.exp() * (mu - pi)).sum(1)), 2e-6);
      for (const int64_t single : {1, 5})
        for (const Tensor& x : {stats.logp, stats.entropy, stats.full_tv, stats.full_kl})
          EXPECT_EQ(x[single].item<double>(), 0);
    }
  }
}

TEST(LmHeadStatistics, EqualTheGoldenVocabularies) {
  const Json goldens = golden("divergences.json");
  EXPECT_EQ(goldens.at("vocabularies").size(), 16u);
  for (const Json& row : goldens.at("vocabularies")) {
    const Tensor logits = at::tensor(numbers(row.at("logits")), at::kDouble).to(at::kFloat).unsqueeze(0);
    const LmHead head(at::eye(logits.size(1)), {});  // the logits are the hidden states
    const TokenStats stats = head.statistics(logits, int64_tensor({row.at("sampled").get<int64_t>()}));
    const double want = row.at("expected").at("logp");
    EXPECT_NEAR(stats.logp.item<double>(), want, 1e-6 * (1 + std::abs(want)));
  }
}

TEST(LmHead, StaysFiniteAtLogitsOfTenThousand) {
  const Tensor hidden = at::tensor({1e4f, -1e4f, 0.0f, -1e4f, -1e4f, -1e4f, 1e4f, 1e4f, 1e4f}).view({3, 3});
  for (const int64_t target : {0, 1, 2}) {
    const Tensor targets = at::full({3}, target, at::kLong);
    const LmHead head(at::eye(3), {});
    const TokenStats stats = head.statistics(hidden, targets);
    const std::vector<double> logp = to_vector(stats.logp), entropy = to_vector(stats.entropy);
    const double third = -1.0986122886681098;
    EXPECT_NEAR(logp[0], std::vector<double>({0, -2e4, -1e4})[target], 1e-3);
    EXPECT_NEAR(logp[1], third, 1e-6);
    EXPECT_NEAR(logp[2], third, 1e-6);
    EXPECT_NEAR(entropy[0], 0, 1e-6);
    EXPECT_NEAR(entropy[1], -third, 1e-6);
    const Tensor gradient = head.backward(hidden, targets, Scope::kToken, [](const TokenStats& s, int64_t, int64_t) {
      return HeadCoefficients{at::ones_like(s.logp), at::ones_like(s.logp)};
    });
    EXPECT_TRUE(gradient.isfinite().all().item<bool>());
  }
}

TEST(LmHeadStatistics, AreFiniteWithAMaskedToken) {
  // A logit of -inf has probability 0 and adds 0 to the entropy, not NaN.
  const Tensor logits = at::tensor({0.0f, -std::numeric_limits<float>::infinity(), 0.0f}).unsqueeze(0);
  const Tensor hidden = at::ones({1, 1});
  const TokenStats stats = LmHead(logits.t().contiguous(), {}).statistics(hidden, int64_tensor({0}));
  EXPECT_NEAR(stats.entropy.item<double>(), std::log(2.0), 1e-6);
  EXPECT_NEAR(stats.logp.item<double>(), -std::log(2.0), 1e-6);
}

TEST(LmHeadStatistics, LogProbsAreNotPositiveAndEntropiesNotNegative) {
  const Tensor hidden = random_normal({4096, 4}, 1) * 8, weight = random_normal({16, 4}, 2) * 4;
  const Tensor best = hidden.matmul(weight.t()).argmax(1);
  const TokenStats stats = LmHead(weight, {}).statistics(hidden, best);
  EXPECT_LE(stats.logp.max().item<double>(), 0);
  EXPECT_GE(stats.entropy.min().item<double>(), 0);
  EXPECT_GT(stats.logp.max().item<double>(), -1e-20);  // some probabilities are almost 1
}

TEST(LmHead, WithoutRowsReturnsEmptyTensors) {
  const Tensor hidden = at::zeros({0, 4}), weight = at::ones({7, 4});
  const LmHead head(weight, {});
  EXPECT_EQ(head.statistics(hidden, int64_tensor({})).logp.size(0), 0);
  const auto ones = [](const TokenStats& s, int64_t, int64_t) -> HeadCoefficients {
    return {at::ones_like(s.logp), {}};
  };
  for (const Scope scope : {Scope::kToken, Scope::kSequence})
    EXPECT_EQ(head.backward(hidden, int64_tensor({}), scope, ones).sizes(), hidden.sizes());
}

}  // namespace
}  // namespace keel
