#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "keel/objective/aggregation.h"
#include "keel/objective/methods.h"
#include "tests/objective/golden_cases.h"
#include "tests/objective/written_objectives.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

/// goldens/README.md: 1e-9 relative in double; in float32 relative to |want| + |A| max(r, 1).
double tolerance_of_g(double want, double logp, double behavior_logp, double advantage, at::ScalarType type) {
  if (type == at::kDouble) return 1e-9 * std::abs(want);
  const double ratio = std::exp(std::clamp(logp - behavior_logp, -20.0, 20.0));
  return 1e-5 * (std::abs(want) + std::abs(advantage) * std::max(ratio, 1.0));
}

void expect_flags(const Json& expected, const char* name, const std::vector<double>& got, double otherwise) {
  for (size_t t = 0; t < got.size(); ++t) {
    const int want = expected.contains(name) ? expected.at(name).at(t).get<int>() : static_cast<int>(otherwise);
    if (want != -1) {
      EXPECT_EQ(got[t], want) << name << " of token " << t;
    }
  }
}

void expect_decision(const TokenDecision& decision, const Json& expected, const GoldenBatch& batch,
                     at::ScalarType type) {
  const std::vector<double> got = to_vector(decision.coefficient), want = numbers(expected.at("g"));
  ASSERT_EQ(got.size(), want.size());
  for (size_t t = 0; t < want.size(); ++t) {
    if (batch.mask[t] == 0) {
      EXPECT_EQ(got[t], 0) << "masked token " << t;
    } else {
      EXPECT_NEAR(got[t], want[t],
                  tolerance_of_g(want[t], batch.logp[t], batch.behavior_logp[t], batch.advantages[t], type))
          << "token " << t;
    }
  }
  expect_flags(expected, "keep", to_vector(decision.keep), 1);
  if (expected.contains("outside"))
    expect_flags(expected, "outside", to_vector(decision.outside), 0);
  else
    expect_flags(expected, "keep", to_vector(decision.outside.logical_not()), 1);
}

TEST(GoldenWeights, AreReproducedForEveryCaseInDoubleAndInFloat) {
  std::map<std::string, int> checked;
  int cases = 0;
  for_each_golden_case([&](const std::string& method, const Json& one, const Json& batch) {
    const TrustRegion region = make_region(method, one.at("params"));
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      SCOPED_TRACE(c10::toString(type));
      expect_decision(token_coefficients(region, golden_inputs(batch, type)), one.at("expected"), GoldenBatch(batch),
                      type);
    }
    ++checked[method];
    ++cases;
  });
  EXPECT_EQ(cases, 481);
  EXPECT_EQ(checked.size(), 41u);
}

/// The aggregate of the values for every aggregation, with the sum of magnitudes.
void expect_losses(const Json& want, const std::vector<double>& values, const GoldenBatch& batch) {
  for (const auto& [aggregation, loss] : want.items()) {
    const std::vector<double> weight = sequence_weights(aggregation, batch.valid_tokens(), batch.horizon);
    double got = 0, size = 0;
    size_t t = 0;
    for (size_t s = 0; s < batch.lengths.size(); ++s) {
      for (int64_t i = 0; i < batch.lengths[s]; ++i, ++t) {
        if (batch.mask[t] == 0) continue;
        got -= weight[s] * values[t];
        size += std::abs(weight[s] * values[t]);
      }
    }
    EXPECT_NEAR(got, loss.get<double>(), 1e-9 * size) << aggregation;
  }
}

TEST(GoldenWeights, GiveTheScoreLossOfEveryAggregation) {
  int checked = 0;
  for_each_golden_case([&](const std::string& method, const Json& one, const Json& json) {
    const GoldenBatch batch(json);
    const TrustRegion region = make_region(method, one.at("params"));
    std::vector<double> values = to_vector(token_coefficients(region, golden_inputs(json, at::kDouble)).coefficient);
    for (size_t t = 0; t < values.size(); ++t) values[t] *= batch.logp[t];
    const Json& want = one.at("expected").at("score_loss");
    EXPECT_EQ(want.size(), 4u);
    expect_losses(want, values, batch);
    ++checked;
  });
  EXPECT_EQ(checked, 481);
}

TEST(WrittenObjectives, MatchTheGoldenLosses) {
  int checked = 0;
  for_each_golden_case([&](const std::string& method, const Json& one, const Json& json) {
    if (!one.at("expected").contains("objective_loss")) return;
    const GoldenBatch batch(json);
    expect_losses(one.at("expected").at("objective_loss"), written_objective(method, one, json), batch);
    ++checked;
  });
  EXPECT_EQ(checked, 300);
}

TEST(GoldenWeights, IncludeTheThresholdsOfSequenceMethods) {
  int taus = 0, thresholds = 0, averages = 0;
  for_each_golden_case([&](const std::string& method, const Json& one, const Json& json) {
    const Json& expected = one.at("expected");
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const double relative = type == at::kDouble ? 1e-9 : 1e-5;
      const TokenDecision decision =
          token_coefficients(make_region(method, one.at("params")), golden_inputs(json, type));
      const std::vector<double> threshold = to_vector(decision.threshold), measured = to_vector(decision.divergence);
      const GoldenBatch batch(json);
      if (expected.contains("tau")) {
        const double want = expected.at("tau").is_null() ? kUnlimited : expected.at("tau").get<double>();
        for (const double tau : threshold) {
          if (std::isinf(want)) {
            EXPECT_EQ(tau, want);
          } else {
            EXPECT_NEAR(tau, want, relative * want);
          }
        }
        ++taus;
      }
      if (expected.contains("threshold")) {
        const std::vector<double> want = numbers(expected.at("threshold"));
        for (const size_t t : batch.valid) EXPECT_NEAR(threshold[t], want[t], relative) << "token " << t;
        ++thresholds;
      }
      if (expected.contains("sequence_tv")) {
        const std::vector<double> want = numbers(expected.at("sequence_tv"));
        size_t t = 0;
        for (size_t s = 0; s < batch.lengths.size(); ++s)
          for (int64_t i = 0; i < batch.lengths[s]; ++i, ++t)
            EXPECT_NEAR(measured[t], batch.mask[t] != 0 ? want[s] : 0, relative * (1 + want[s])) << "token " << t;
        ++averages;
      }
    }
  });
  EXPECT_EQ(taus, 2 * 12);
  EXPECT_EQ(thresholds, 2 * 8);
  EXPECT_EQ(averages, 2 * 15);
}

}  // namespace
}  // namespace keel
