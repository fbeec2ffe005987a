#include "keel/objective/reference_kl.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/goldens.h"
#include "tests/support/tensors.h"

namespace keel {
namespace {

constexpr const char* kWords[] = {"k1", "k2", "k3"};

Tensor one(double value, at::ScalarType type = at::kDouble) { return at::full({1}, value, type); }

TEST(ReferenceKl, MatchesTheGoldensWithPiAsMu) {
  const Json divergences = golden("divergences.json"), batches = golden("batches.json");
  int checked = 0;
  for (const Json& row : divergences.at("tokens")) {
    const GoldenBatch batch = golden_batch(batches, row.at("batch"));
    for (const char* word : kWords) {
      const std::vector<double> want = batch.only_valid(numbers(row.at("expected").at(word)));
      for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
        SCOPED_TRACE(row.at("batch").get<std::string>() + " " + word + " " + c10::toString(type));
        const std::vector<double> got =
            to_vector(reference_kl(parse_kl_estimator(word), batch.valid_tensor(batch.behavior_logp, type),
                                   batch.valid_tensor(batch.logp, type)));
        for (size_t i = 0; i < want.size(); ++i) {
          // 1e-15: exp - 1 - d of the goldens cancels.
          const double tolerance =
              type == at::kDouble ? 1e-15 + 1e-9 * std::abs(want[i]) : 1e-6 + 1e-4 * std::abs(want[i]);
          EXPECT_NEAR(got[i], want[i], tolerance) << i;
          ++checked;
        }
      }
    }
  }
  EXPECT_EQ(checked, 423 * 3 * 2);
}

TEST(ReferenceKlCoefficient, IsMinusBetaTimesTheCentralDifferenceOfTheEstimate) {
  const double beta = 0.3, step = 1e-5;
  for (const char* word : kWords) {
    const KlEstimator estimator = parse_kl_estimator(word);
    for (const double reference : {-0.01, -1.0, -5.0}) {
      for (const double d : {-9.0, -2.0, -0.5, -1e-3, 0.0, 1e-3, 0.5, 2.0, 9.0}) {
        const auto estimate = [&](double logp) {
          return reference_kl(estimator, one(logp), one(reference)).item<double>();
        };
        const double logp = reference + d;
        const double slope = (estimate(logp + step) - estimate(logp - step)) / (2 * step);
        const double got = reference_kl_coefficient(estimator, beta, one(logp), one(reference)).item<double>();
        EXPECT_NEAR(got, -beta * slope, 1e-8 * (1 + std::abs(slope))) << word << " " << reference << " " << d;
      }
    }
  }
}

TEST(ReferenceKlCoefficient, HasTheValuesOfAHandCalculation) {
  const double reference = -2, logp = -1.5, beta = 0.1;  // d = 0.5
  EXPECT_NEAR(reference_kl_coefficient(KlEstimator::kK1, beta, one(logp), one(reference)).item<double>(), -0.1, 1e-16);
  EXPECT_NEAR(reference_kl_coefficient(KlEstimator::kK2, beta, one(logp), one(reference)).item<double>(), -0.05, 1e-16);
  EXPECT_NEAR(reference_kl_coefficient(KlEstimator::kK3, beta, one(logp), one(reference)).item<double>(),
              -0.039346934028736660, 1e-16);  // -0.1 (1 - e^-0.5)
}

/// A distribution over four tokens, and the gradient of a function of its logits by central differences.
Tensor log_law(const std::vector<double>& logits) { return at::log_softmax(at::tensor(logits, at::kDouble), 0); }

std::vector<double> slope(const std::function<double(const Tensor&)>& f, const std::vector<double>& logits) {
  std::vector<double> result;
  for (size_t i = 0; i < logits.size(); ++i) {
    std::vector<double> above = logits, below = logits;
    above[i] += 1e-5, below[i] -= 1e-5;
    result.push_back((f(log_law(above)) - f(log_law(below))) / 2e-5);
  }
  return result;
}

TEST(ReferenceKlCoefficient, HasTheDocumentedExpectedGradients) {
  const std::vector<double> logits{0.3, -1.2, 0.9, -0.4};
  const Tensor pi = log_law(logits), reference = log_law({-0.5, 0.4, 0.1, 1.0});
  const double beta = 0.7;
  const std::vector<double> forward =
      slope([&](const Tensor& p) { return (p.exp() * (p - reference)).sum().item<double>(); }, logits);
  const std::vector<double> reverse =
      slope([&](const Tensor& p) { return (reference.exp() * (reference - p)).sum().item<double>(); }, logits);
  const std::vector<double> none(4, 0.0);
  const std::vector<std::vector<double>> want{none, forward, reverse};
  for (size_t k = 0; k < 3; ++k) {
    const Tensor coefficient = reference_kl_coefficient(parse_kl_estimator(kWords[k]), beta, pi, reference);
    // The sum over y of pi(y) c(y) grad log pi(y), where d log pi(y) / d logit i = [y = i] - pi(i).
    const Tensor weighted = pi.exp() * coefficient;
    const std::vector<double> got = to_vector(weighted - weighted.sum() * pi.exp());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], -beta * want[k][i], 1e-9) << kWords[k] << " " << i;
  }
  EXPECT_GT(std::abs(forward[0] - reverse[0]), 0.01) << "the two divergences must differ for this to say anything";
}

TEST(ReferenceKl, ClampsOnlyInsideExpAndKeepsANonzeroCoefficient) {
  const double e20 = 485165195.40979028;
  const Tensor low = one(-31), high = one(-1);  // d = -30, then 30
  EXPECT_NEAR(reference_kl(KlEstimator::kK3, low, high).item<double>() / (e20 - 1 - 30), 1, 1e-12);
  EXPECT_NEAR(reference_kl(KlEstimator::kK3, high, low).item<double>(), 29.000000002061154, 1e-9);  // e^-20 - 1 + 30
  EXPECT_EQ(reference_kl(KlEstimator::kK1, low, high).item<double>(), -30);
  EXPECT_EQ(reference_kl(KlEstimator::kK2, low, high).item<double>(), 450);
  EXPECT_NEAR(reference_kl_coefficient(KlEstimator::kK3, 0.5, low, high).item<double>() / (0.5 * (e20 - 1)), 1, 1e-12);
  EXPECT_EQ(reference_kl_coefficient(KlEstimator::kK2, 0.5, low, high).item<double>(), 15);
}

TEST(ReferenceKl, IgnoresMaskedTokensWithAnyValue) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const Tensor logp = at::tensor({-1.0, nan, -infinity, 1e30, -2.0}, at::kDouble).to(type);
    const Tensor reference = at::tensor({-1.5, -1.0, -infinity, -1e30, -1.0}, at::kDouble).to(type);
    const Tensor mask = at::tensor({1, 0, 0, 0, 1}, at::kLong).to(at::kBool);
    for (const char* word : kWords) {
      SCOPED_TRACE(word);
      const KlEstimator estimator = parse_kl_estimator(word);
      const Tensor kl = reference_kl(estimator, logp, reference, mask);
      const Tensor coefficient = reference_kl_coefficient(estimator, 0.1, logp, reference, mask);
      EXPECT_EQ(kl.scalar_type(), type);
      EXPECT_EQ(coefficient.scalar_type(), type);
      for (const int64_t i : {1, 2, 3}) {
        EXPECT_EQ(kl[i].item<double>(), 0);
        EXPECT_EQ(coefficient[i].item<double>(), 0);
      }
      const auto valid = [](const Tensor& x) { return at::stack({x[0], x[4]}); };
      EXPECT_EQ(largest_difference(valid(kl), reference_kl(estimator, valid(logp), valid(reference))), 0);
      EXPECT_EQ(largest_difference(valid(coefficient),
                                   reference_kl_coefficient(estimator, 0.1, valid(logp), valid(reference))),
                0);
      EXPECT_NE(coefficient[0].item<double>(), 0);
    }
  }
}

TEST(ReferenceKl, CarriesNoAutogradGraphAndIsPreciseNearTheReference) {
  const Tensor logp = one(-0x1p-7 + 0x1p-26, at::kFloat).requires_grad_(), reference = one(-0x1p-7, at::kFloat);
  EXPECT_FALSE(reference_kl(KlEstimator::kK3, logp, reference).requires_grad());
  const Tensor coefficient = reference_kl_coefficient(KlEstimator::kK3, 1, logp, reference);
  EXPECT_FALSE(coefficient.requires_grad());
  EXPECT_NEAR(coefficient.item<double>() / -1.4901161082825354e-08, 1, 1e-6);  // -(1 - e^-d), d = 2^-26
}

TEST(KlEstimator, RejectsAnUnknownName) {
  EXPECT_THAT(error_of(2, [] { parse_kl_estimator("low_var_kl"); }), AllOf(HasSubstr("low_var_kl"), HasSubstr("k3")));
}

TEST(ReferenceKl, CountsClampsOnlyForK3) {
  const Tensor logp = at::tensor({-30.0, -1.0, -3.0, -50.0}), reference = at::tensor({-5.0, -25.0, -1.0, -1.0});
  const Tensor mask = at::tensor({1, 1, 1, 0}).to(at::kBool);
  EXPECT_EQ(reference_kl_clamp_count(KlEstimator::kK3, logp, reference, mask).item<int64_t>(), 2);
  EXPECT_EQ(reference_kl_clamp_count(KlEstimator::kK3, logp, reference).item<int64_t>(), 3);
  EXPECT_EQ(reference_kl_clamp_count(KlEstimator::kK2, logp, reference).item<int64_t>(), 0);
  EXPECT_EQ(reference_kl_clamp_count(KlEstimator::kK1, logp, reference).item<int64_t>(), 0);
}

}  // namespace
}  // namespace keel
