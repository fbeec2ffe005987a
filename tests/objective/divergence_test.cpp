#include "keel/objective/divergence.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

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

TEST(BinaryDivergences, EqualTheGoldensForEveryTokenOfEveryBatch) {
  const Json divergences = golden("divergences.json"), batches = golden("batches.json");
  int batches_checked = 0, tokens_checked = 0;
  for (const Json& row : divergences.at("tokens")) {
    const GoldenBatch batch = golden_batch(batches, row.at("batch"));
    const std::vector<double> tv = numbers(row.at("expected").at("binary_tv"));
    const std::vector<double> kl = numbers(row.at("expected").at("binary_kl"));
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const Tensor logp = batch.valid_tensor(batch.logp, type), mu = batch.valid_tensor(batch.behavior_logp, type);
      const std::vector<double> got_tv = to_vector(binary_tv(logp, mu)), got_kl = to_vector(binary_kl(logp, mu));
      for (size_t i = 0; i < batch.valid.size(); ++i) {
        SCOPED_TRACE(row.at("batch").get<std::string>() + " token " + std::to_string(batch.valid[i]) + " " +
                     c10::toString(type));
        expect_divergence(got_tv[i], tv.at(batch.valid[i]), type);
        expect_divergence(got_kl[i], kl.at(batch.valid[i]), type);
      }
    }
    ++batches_checked;
    tokens_checked += static_cast<int>(batch.valid.size());
  }
  EXPECT_EQ(batches_checked, 17);
  EXPECT_EQ(tokens_checked, 423);
}

TEST(BinaryDivergences, EqualTheGoldensFromWholeVocabulariesAndBoundTheFullOnesFromBelow) {
  int checked = 0;
  const Json goldens = golden("divergences.json");
  for (const Json& row : goldens.at("vocabularies")) {
    const int64_t sampled = row.at("sampled");
    const auto logp_of = [&](const char* logits) {
      return at::log_softmax(at::tensor(numbers(row.at(logits)), at::kDouble), 0).narrow(0, sampled, 1);
    };
    const Tensor logp = logp_of("logits"), mu = logp_of("behavior_logits");
    const Json& want = row.at("expected");
    EXPECT_NEAR(logp.item<double>(), want.at("logp").get<double>(), 1e-12);
    const double tv = binary_tv(logp, mu).item<double>(), kl = binary_kl(logp, mu).item<double>();
    EXPECT_NEAR(tv, want.at("binary_tv").get<double>(), 1e-9);
    EXPECT_NEAR(kl, want.at("binary_kl").get<double>(), 1e-9);
    EXPECT_LE(tv, want.at("full_tv").get<double>() + 1e-12);
    EXPECT_LE(kl, want.at("full_kl").get<double>() + 1e-12);
    ++checked;
  }
  EXPECT_EQ(checked, 16);
}

// The two tables below were computed with 60 digits (Python, mpmath) from the float32 values of the inputs.

TEST(BinaryKl, KeepsItsDigitsNearProbabilityOneInFloat) {
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

TEST(Log1mexp, KeepsItsDigitsFromMinusZeroToMinusHundred) {
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

TEST(BinaryDivergences, AreZeroAtEqualProbabilitiesAndFiniteOrPlusInfinityEverywhere) {
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

TEST(ProbabilityRatio, IsHeldWithinExpOfTwenty) {
  const Tensor ratio = probability_ratio(at::tensor({0.0, -1.0, -1000.0, -0.5}, at::kDouble),
                                         at::tensor({-1000.0, -1.0, 0.0, -0.7}, at::kDouble));
  const std::vector<double> want{485165195.40979028, 1, 2.0611536224385579e-9,
                                 1.2214027581601699};  // e^20, 1, e^-20, e^0.2
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(to_vector(ratio)[i] / want[i], 1, 1e-12) << i;
}

}  // namespace
}  // namespace keel
