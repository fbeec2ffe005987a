#include "keel/objective/regions/divergence.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/objective/golden_cases.h"
#include "tests/support/goldens.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

/// goldens/README.md: 1e-9 relative in double, 1e-6 + 1e-4 relative in float32; infinities must agree exactly.
void expect_divergence(double got, double want, at::ScalarType type) {
  if (std::isinf(want)) {
    EXPECT_EQ(got, want);
  } else {
    EXPECT_NEAR(got, want, type == at::kDouble ? 1e-9 * std::abs(want) : 1e-6 + 1e-4 * std::abs(want));
  }
}

/// All divergences of the sampled token and of the top K, by their names in the goldens.
std::map<std::string, Tensor> token_divergences(const LossInputs& p) {
  std::map<std::string, Tensor> result{{"binary_tv", binary_tv(p.logp, p.behavior_logp)},
                                       {"binary_kl", binary_kl(p.logp, p.behavior_logp)},
                                       {"k1", k1(p.logp, p.behavior_logp)},
                                       {"k2", k2(p.logp, p.behavior_logp)},
                                       {"k3", k3(p.logp, p.behavior_logp)}};
  if (!p.topk_logp.defined()) return result;
  const TopKLogProbs topk{p.topk_behavior_logp, p.topk_logp, p.behavior_logp, p.logp, p.sampled_in_topk};
  result["topk_tv"] = topk_tv(topk);
  result["topk_kl"] = topk_kl(topk);
  return result;
}

TEST(TokenDivergences, MatchTheGoldensForEveryToken) {
  const Json divergences = golden("divergences.json"), batches = golden("batches.json");
  int batches_checked = 0, numbers_checked = 0;
  for (const Json& row : divergences.at("tokens")) {
    const Json batch = golden_batch_json(batches, row.at("batch"));
    const GoldenBatch tokens(batch);
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const std::map<std::string, Tensor> got = token_divergences(golden_inputs(batch, type));
      EXPECT_EQ(got.size(), row.at("expected").size());
      for (const auto& [name, tensor] : got) {
        const std::vector<double> values = to_vector(tensor), want = numbers(row.at("expected").at(name));
        for (const size_t t : tokens.valid) {
          SCOPED_TRACE(row.at("batch").get<std::string>() + " token " + std::to_string(t) + " " + name + " " +
                       c10::toString(type));
          expect_divergence(values[t], want[t], type);
          ++numbers_checked;
        }
      }
    }
    ++batches_checked;
  }
  EXPECT_EQ(batches_checked, 17);
  EXPECT_EQ(numbers_checked, 2 * (5 * 423 + 2 * (24 + 22)));
}

/// An entry of `vocabularies`, with both policies as log-probs [V].
struct Vocabulary {
  Vocabulary(const Json& row, at::ScalarType type)
      : sampled(row.at("sampled")),
        k(row.at("K")),
        logp(rows(row, "logits", type)),
        behavior_logp(rows(row, "behavior_logits", type)) {}

  static Tensor rows(const Json& row, const char* name, at::ScalarType type) {
    return at::log_softmax(at::tensor(numbers(row.at(name)), at::kDouble), 0).to(type);
  }

  TopKLogProbs topk() const {
    const Tensor ids = std::get<1>(behavior_logp.topk(k));
    return {behavior_logp.index_select(0, ids), logp.index_select(0, ids), behavior_logp[sampled], logp[sampled],
            (ids == sampled).any()};
  }

  int64_t sampled, k;
  Tensor logp, behavior_logp;
};

TEST(Divergences, MatchTheGoldensOfFullVocabularies) {
  int checked = 0;
  const Json goldens = golden("divergences.json");
  for (const Json& row : goldens.at("vocabularies")) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const Vocabulary v(row, type);
      const Tensor logp = v.logp[v.sampled], mu = v.behavior_logp[v.sampled];
      const std::map<std::string, Tensor> got{{"binary_tv", binary_tv(logp, mu)},
                                              {"binary_kl", binary_kl(logp, mu)},
                                              {"topk_tv", topk_tv(v.topk())},
                                              {"topk_kl", topk_kl(v.topk())},
                                              {"full_tv", full_tv(v.logp, v.behavior_logp)},
                                              {"full_kl", full_kl(v.logp, v.behavior_logp)}};
      for (const auto& [name, value] : got) {
        SCOPED_TRACE(name + " " + c10::toString(type) + " vocabulary " + std::to_string(checked / 12));
        expect_divergence(value.item<double>(), row.at("expected").at(name).get<double>(), type);
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, 16 * 2 * 6);
}

TEST(Divergences, GrowWithTheNumberOfTokensThatTheyDistinguish) {
  int outside = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const double spread = seed % 2 == 0 ? 1.0 : 4.0;
    const Tensor mu = at::log_softmax(spread * random_normal({30}, seed, at::kDouble), 0);
    const Tensor logp = at::log_softmax(mu + random_normal({30}, seed + 1000, at::kDouble), 0);
    const int64_t k = 1 + static_cast<int64_t>(seed % 8), sampled = static_cast<int64_t>(seed % 30);
    const Tensor ids = std::get<1>(mu.topk(k));
    const TopKLogProbs topk{mu.index_select(0, ids), logp.index_select(0, ids), mu[sampled], logp[sampled],
                            (ids == sampled).any()};
    outside += topk.sampled_in_topk.item<bool>() ? 0 : 1;
    const auto ordered = [&](const Tensor& binary, const Tensor& some, const Tensor& full) {
      EXPECT_LE(binary.item<double>(), some.item<double>() + 1e-12) << seed;
      EXPECT_LE(some.item<double>(), full.item<double>() + 1e-12) << seed;
    };
    ordered(binary_tv(logp[sampled], mu[sampled]), topk_tv(topk), full_tv(logp, mu));
    ordered(binary_kl(logp[sampled], mu[sampled]), topk_kl(topk), full_kl(logp, mu));
  }
  EXPECT_GT(outside, 100);
}

TEST(TopKDivergences, ReplaceTheLastTokenWithReplaceLast) {
  // mu = (.4, .3, .2, .1), pi = (.1, .2, .3, .4); K = 2, token 3 sampled. By hand: the union is {0, 1, 3, other},
  // replacement leaves {0, 3, other}.
  const auto logs = [](std::vector<double> p) { return at::tensor(p, at::kDouble).log(); };
  const auto yes = at::tensor(std::vector<int64_t>{1}, at::kLong).to(at::kBool)[0];
  const TopKLogProbs out{logs({.4, .3}), logs({.1, .2}), logs({.1})[0], logs({.4})[0], yes.logical_not()};
  EXPECT_NEAR(topk_tv(out).item<double>(), (.3 + .1 + .3 + .1) / 2, 1e-12);
  EXPECT_NEAR(topk_tv(out, TopKSupport::kReplaceLast).item<double>(), (.3 + .3 + 0) / 2, 1e-12);
  EXPECT_NEAR(topk_kl(out, TopKSupport::kReplaceLast).item<double>(),
              .4 * std::log(4) + .1 * std::log(.25) + .5 * std::log(1), 1e-12);
  const TopKLogProbs in{logs({.4, .3}), logs({.1, .2}), logs({.3})[0], logs({.2})[0], yes};
  EXPECT_NEAR(topk_tv(in).item<double>(), topk_tv(in, TopKSupport::kReplaceLast).item<double>(), 1e-15);
  EXPECT_NEAR(topk_tv(in).item<double>(), (.3 + .1 + .4) / 2, 1e-12);
}

TEST(TopKDivergences, HaveNoRestIfTheListHasAllChoices) {
  const double never = -std::numeric_limits<double>::infinity();
  const auto logs = [](std::vector<double> p) { return at::tensor(p, at::kDouble).log(); };
  const auto yes = at::ones({}, at::kBool), no = at::zeros({}, at::kBool);
  const auto count = [](int64_t choices) { return at::scalar_tensor(choices, at::kInt); };
  for (const auto support : {TopKSupport::kUnion, TopKSupport::kReplaceLast}) {
    // Two choices, mu = (.75, .25), pi = (.5, .5); K = 3 is padded.
    const Tensor padded = at::cat({logs({.75, .25}), at::full({1}, never, at::kDouble)}),
                 padded_pi = at::cat({logs({.5, .5}), at::full({1}, never, at::kDouble)});
    const TopKLogProbs two{padded, padded_pi, logs({.25})[0], logs({.5})[0], yes, count(2)};
    EXPECT_DOUBLE_EQ(topk_tv(two, support).item<double>(), .25);
    EXPECT_DOUBLE_EQ(topk_kl(two, support).item<double>(), .75 * std::log(1.5) + .25 * std::log(.5));
    // The rest has mass 0 although rounded log-probs leave some, which would count as 1e-7 log(1e-7 / 1e-12).
    const TopKLogProbs rounded{logs({.7499999, .25}), logs({.5, .5}), logs({.25})[0], logs({.5})[0], yes, count(2)};
    EXPECT_NEAR(topk_kl(rounded, support).item<double>(), .7499999 * std::log(1.4999998) + .25 * std::log(.5), 1e-15);
    // One choice: exactly 0.
    const TopKLogProbs one{at::tensor({0.0, never, never}, at::kDouble),
                           at::tensor({0.0, never, never}, at::kDouble),
                           at::zeros({}, at::kDouble),
                           at::zeros({}, at::kDouble),
                           yes,
                           count(1)};
    EXPECT_EQ(topk_tv(one, support).item<double>(), 0);
    EXPECT_EQ(topk_kl(one, support).item<double>(), 0);
    // Three choices, K = 1: the rest counts.
    const TopKLogProbs three{logs({.5}), logs({.2}), logs({.25})[0], logs({.4})[0], no, count(3)};
    EXPECT_DOUBLE_EQ(topk_tv(three).item<double>(), .3);
  }
}

TEST(FullKl, IgnoresTokensWithMuZero) {
  const double never = -std::numeric_limits<double>::infinity();
  const Tensor mu = at::tensor({std::log(.5), std::log(.5), never}, at::kDouble);
  const Tensor pi = at::tensor({std::log(.25), std::log(.25), std::log(.5)}, at::kDouble);
  EXPECT_NEAR(full_kl(pi, mu).item<double>(), std::log(2), 1e-12);
  EXPECT_TRUE(std::isinf(full_kl(mu, pi).item<double>()));
}

// The two tables below were computed with 60 digits (Python, mpmath) from the float32 values of the inputs.

TEST(BinaryKl, IsPreciseNearProbabilityOneInFloat) {
  struct Row {
    double behavior_logp, logp, kl;
  };
  for (const Row& row : {Row{-1e-7, -2e-7, 3.068528076833254e-8}, Row{-0.1, -1e-10, 1.8768772874754077},
                         Row{-20, -1e-9, 20.723265779730282}, Row{-1e-4, -2e-4, 3.0683746914286637e-5},
                         Row{-0.00221, -1e-9, 0.030041585163651673}}) {
    const double kl =
        binary_kl(at::full({1}, row.logp, at::kFloat), at::full({1}, row.behavior_logp, at::kFloat)).item<double>();
    EXPECT_NEAR(kl / row.kl, 1, 2e-6) << row.behavior_logp << " " << row.logp;
  }
}

TEST(BinaryKl, IsFiniteAndCorrectWithOtherLogp) {
  struct Row {
    double other_mu, other_pi, kl;  // 1 - mu, 1 - pi, with 120 digits
  };
  for (const Row& row : {Row{1e-9, 1e-12, 5.9087552794811376e-9}, Row{1e-12, 1e-9, 9.9209224522001836e-10},
                         Row{1e-9, 5e-10, 1.9314718068494531e-10}, Row{1e-9, 1e-60, 1.1643183974319633e-7},
                         Row{1e-60, 1e-9, 1.0000000005e-9}, Row{0.5, 1e-60, 68.384405609261425},
                         Row{1e-60, 0.5, 0.69314718055994531}, Row{1e-30, 2e-30, 3.0685281944005469e-31}}) {
    SCOPED_TRACE(std::to_string(std::log10(row.other_mu)) + " " + std::to_string(std::log10(row.other_pi)));
    const auto tensor = [](double x) { return at::full({1}, x, at::kDouble).to(at::kFloat); };
    const Tensor mu = tensor(std::log1p(-row.other_mu)), pi = tensor(std::log1p(-row.other_pi)),
                 other_mu = tensor(std::log(row.other_mu)), other_pi = tensor(std::log(row.other_pi));
    EXPECT_NEAR(binary_kl(pi, mu, other_pi, other_mu).item<double>() / row.kl, 1, 2e-5);
    // logp rounded to 0 by float32: the error is at most 1 - pi, and the KL is finite.
    const double rounded = binary_kl(tensor(0), mu, other_pi, other_mu).item<double>();
    if (row.other_pi < 1e-10) {
      EXPECT_NEAR(rounded, row.kl, 1.01 * row.other_pi + 2e-5 * row.kl);
    }
    EXPECT_EQ(binary_kl(pi, pi, other_pi, other_pi).item<double>(), 0);
  }
  const Tensor zero = at::zeros({1}), never = at::full({1}, -std::numeric_limits<double>::infinity(), at::kFloat);
  EXPECT_EQ(binary_kl(zero, zero, never, at::full({1}, -200.0, at::kFloat)).item<double>(), 0);  // and not 0 * inf
  EXPECT_EQ(binary_kl(zero, at::full({1}, -1e-9, at::kFloat)).item<double>(), kUnlimited);       // as before
}

TEST(Log1mexp, IsPreciseFromMinusZeroToMinusHundred) {
  const std::vector<double> x{-1e-30, -1e-10, -1e-5, -0.5, -0.6931, -0.6932, -1, -10, -40, -100};
  const std::vector<double> want{-69.077552789821371,   -23.025850929990457,   -11.512930464966062,
                                 -0.93275212956718857,  -0.69319436334600089,  -0.69309436390963651,
                                 -0.45867514538708189,  -4.540096037048921e-5, -4.248354255291589e-18,
                                 -3.720075976020836e-44};
  const std::vector<double> in_double = to_vector(log1mexp(at::tensor(x, at::kDouble)));
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(in_double[i] / want[i], 1, 1e-14) << x[i];
  const std::vector<double> in_float = to_vector(log1mexp(at::tensor(x, at::kDouble).to(at::kFloat)));
  for (size_t i = 0; i + 1 < x.size(); ++i) EXPECT_NEAR(in_float[i] / want[i], 1, 2e-6) << x[i];
  EXPECT_EQ(log1mexp(at::zeros({1})).item<float>(), -std::numeric_limits<float>::infinity());
}

TEST(BinaryDivergences, AreZeroAtEqualProbabilitiesAndNeverNan) {
  const std::vector<double> grid{0, -1e-30, -1e-9, -1e-4, -0.1, -0.69, -0.7, -2, -20, -87, -90, -104, -120, -1000};
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    for (const double mu : grid) {
      for (const double pi : grid) {
        SCOPED_TRACE(std::to_string(mu) + " " + std::to_string(pi) + " " + c10::toString(type));
        const Tensor logp = at::full({1}, pi, type), behavior_logp = at::full({1}, mu, type);
        const double tv = binary_tv(logp, behavior_logp).item<double>();
        const double kl = binary_kl(logp, behavior_logp).item<double>();
        EXPECT_NEAR(tv, std::abs(std::exp(pi) - std::exp(mu)), type == at::kDouble ? 1e-15 : 1e-6);
        EXPECT_GE(kl, 0);  // false for NaN as well
        EXPECT_EQ(std::isinf(kl), pi == 0 && mu < 0);
        if (mu == pi) {
          EXPECT_EQ(std::max(tv, kl), 0);
        }
      }
    }
  }
}

TEST(ProbabilityRatio, IsClampedAtExpOfTwenty) {
  const Tensor ratio = probability_ratio(at::tensor({0.0, -1.0, -1000.0, -0.5}, at::kDouble),
                                         at::tensor({-1000.0, -1.0, 0.0, -0.7}, at::kDouble));
  const std::vector<double> want{485165195.40979028, 1, 2.0611536224385579e-9,
                                 1.2214027581601699};  // e^20, 1, e^-20, e^0.2
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(to_vector(ratio)[i] / want[i], 1, 1e-12) << i;
}

}  // namespace
}  // namespace keel
