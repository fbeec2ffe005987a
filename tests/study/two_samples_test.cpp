// Expected values are from scipy 1.17 (stats.ttest_ind without equal variances, stats.ttest_rel, stats.fisher_exact,
// stats.binomtest).

#include "keel/study/two_samples.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(WelchTest, MatchesScipy) {
  const std::vector<double> one{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0},
      other{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};
  EXPECT_NEAR(welch_test(one, other), 0.0793941401873583, 1e-12);
  EXPECT_NEAR(welch_test(other, one), 0.0793941401873583, 1e-12);
  EXPECT_NEAR(welch_test(std::vector<double>{0.71, 0.69, 0.74}, std::vector<double>{0.2, 0.25, 0.7, 0.1}),
              0.05602564994897198, 1e-12);
  EXPECT_NEAR(welch_test(std::vector<double>{1.0, 1.1}, std::vector<double>{5.0, 5.05}), 0.0014065129559720656, 1e-12);
  EXPECT_EQ(welch_test(one, one), 1);
}

TEST(WelchTest, OfConstantSamplesIsZeroOrOne) {
  EXPECT_EQ(welch_test(std::vector<double>{1, 1}, std::vector<double>{1, 1, 1}), 1);
  EXPECT_EQ(welch_test(std::vector<double>{1, 1}, std::vector<double>{2, 2}), 0);
}

TEST(WelchTest, DoesNotDependOnTheUnit) {
  // The samples of the first test in units in which sums or squares overflow; and a difference that overflows.
  const auto in_unit = [](double unit, std::vector<double> values) {
    for (double& value : values) value *= unit;
    return values;
  };
  for (const double unit : {1e-300, 1e-160, 1e160, 1e307})
    EXPECT_NEAR(welch_test(in_unit(unit, {0.71, 0.69, 0.74}), in_unit(unit, {0.2, 0.25, 0.7, 0.1})),
                0.05602564994897198, 1e-12);
  EXPECT_NEAR(welch_test(std::vector<double>{-1.6e308, -1.7e308}, std::vector<double>{1.6e308, 1.7e308}),
              0.0004588208546185905, 1e-12);
}

TEST(PairedTest, MatchesScipy) {
  EXPECT_NEAR(paired_test(std::vector<double>{-1.2, -2.4, -1.3, -1.3, 0.0, -1.0, -1.8, -0.8, -4.6, -1.4}).value(),
              0.002832890197384273, 1e-12);
}

TEST(PairedTest, OfEqualDifferencesIsOneOrMissing) {
  EXPECT_EQ(paired_test(std::vector<double>{0, 0}), 1);
  EXPECT_EQ(paired_test(std::vector<double>{0.5, 0.5, 0.5}), std::nullopt);
  EXPECT_EQ(paired_test(std::vector<double>{0.3 - 0.2, 0.8 - 0.7, 0.1}), std::nullopt);  // equal up to rounding
}

TEST(FisherTest, MatchesScipy) {
  EXPECT_NEAR(fisher_test(3, 4, 1, 4), 0.48571428571428565, 1e-12);
  EXPECT_NEAR(fisher_test(10, 12, 2, 15), 0.00043523130075828965, 1e-14);
  EXPECT_NEAR(fisher_test(0, 8, 5, 8), 0.025641025641025633, 1e-12);
  EXPECT_NEAR(fisher_test(1, 8, 4, 8), 0.28205128205128205, 1e-12);
  EXPECT_NEAR(fisher_test(8, 8, 8, 8), 1, 1e-12);
}

TEST(McNemarTest, IsTheTwoSidedBinomialTest) {
  EXPECT_EQ(mcnemar_test(0, 0), 1);
  EXPECT_EQ(mcnemar_test(2, 2), 1);  // both tails together are more than 1
  EXPECT_NEAR(mcnemar_test(0, 8), 2.0 / 256, 1e-15);
  EXPECT_NEAR(mcnemar_test(5, 1), 2.0 * (1 + 6) / 64, 1e-14);
  EXPECT_NEAR(mcnemar_test(9, 3), 0.14599609375, 1e-13);
  EXPECT_NEAR(mcnemar_test(300, 700) / 1.7665678007949568e-37, 1, 1e-9);
}

TEST(HolmCorrection, IsMonotonic) {
  // 0.01 x 4, 0.02 x 3, 0.03 x 2, 0.04 x 1: the last two are raised to the one before.
  const std::vector<double> corrected = holm_corrected(std::vector<double>{0.03, 0.01, 0.04, 0.02});
  EXPECT_NEAR(corrected[1], 0.04, 1e-15);
  EXPECT_NEAR(corrected[3], 0.06, 1e-15);
  EXPECT_NEAR(corrected[0], 0.06, 1e-15);
  EXPECT_NEAR(corrected[2], 0.06, 1e-15);
  EXPECT_EQ(holm_corrected(std::vector<double>{0.5, 0.9})[0], 1);
}

}  // namespace
}  // namespace keel
