// Low-precision samplers: each one trains, with a mismatch that matches its precision.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/support/tiny_training.h"

namespace keel {
namespace {

Config low_precision_config(const std::string& weights, double logit_noise = 0) {
  Config config = tiny_run("dppo_tv");
  config.train.prompts_per_step = 16;
  config.rollout.samples_per_prompt = 8;
  config.train.tokens_per_batch = 4096;
  config.rollout.weights = weights;
  config.rollout.logit_noise = logit_noise;
  return config;
}

/// The mean |pi - mu| at equal parameters.
double measure_mismatch(const std::string& weights, double logit_noise = 0) {
  TinyTraining run(low_precision_config(weights, logit_noise), warm_model());
  return run.step().tokens->mismatch_mean;
}

TEST(Mismatch, GrowsWithLowerPrecision) {
  std::map<std::string, double> mismatch;
  for (const SamplingPrecision& precision : sampling_precisions()) {
    mismatch[precision.name] = measure_mismatch(precision.name);
    RecordProperty(precision.name, std::to_string(mismatch[precision.name]));
  }
  EXPECT_LT(mismatch["exact"], 1e-6);
  const std::vector<std::string> order = {"exact", "bf16", "fp8", "int4", "int3"};
  for (size_t i = 0; i + 1 < order.size(); ++i)
    EXPECT_LT(1.5 * mismatch[order[i]], mismatch[order[i + 1]]) << order[i] << " and " << order[i + 1];
  EXPECT_LT(2 * mismatch["exact"], mismatch["fp16"]);
  EXPECT_LT(2 * mismatch["fp16"], mismatch["bf16"]);  // 11 and 8 bits of mantissa
  EXPECT_LT(2 * mismatch["int8"], mismatch["int4"]);
  EXPECT_LT(2 * mismatch["fp8"], mismatch["nvfp4"]);
  EXPECT_LT(1.2 * mismatch["fp8"], mismatch["fp8_full"]);
  EXPECT_LT(1.2 * mismatch["fp8_full"], mismatch["fp8_e5m2_full"]);  // 4 and 3 bits of mantissa
}

TEST(Mismatch, OfLogitNoiseGrowsWithItsDeviation) {
  const double small = measure_mismatch("exact", 0.05), large = measure_mismatch("exact", 0.5);
  EXPECT_GT(small, 1e-4);
  EXPECT_GT(large, 4 * small);
  EXPECT_LT(large, 25 * small);
}

TEST(Mismatch, StaysConstantBecauseEveryStepRoundsTheWeightsAgain) {
  // A copy from the first step would differ by all updates since.
  TinyTraining run(low_precision_config("int8"), warm_model());
  const double first = run.step().tokens->mismatch_mean;
  for (int step = 0; step < 3; ++step) EXPECT_LT(run.step().tokens->mismatch_mean, 10 * first);
  EXPECT_GT(relative_difference(run.model().head().value(), warm_model().head().value()), 1e-3);
}

TEST(Mismatch, OfEveryKindAllowsTraining) {
  for (const SamplingPrecision& precision : sampling_precisions()) {
    TinyTraining run(low_precision_config(precision.name, 0.1), warm_model());
    for (int step = 0; step < 2; ++step) {
      const StepMetrics& metrics = run.step();
      ASSERT_TRUE(metrics.tokens && metrics.gradients) << precision.name;
      EXPECT_GT(metrics.gradients->mean, 0) << precision.name;
      EXPECT_EQ(metrics.skipped_updates, 0) << precision.name;
      EXPECT_EQ(metrics.tokens->invalid_tokens, 0) << precision.name;
      const Json row = metrics_row(metrics);
      EXPECT_EQ(row.at("mismatch/weights"), precision.name);
      EXPECT_EQ(row.at("mismatch/logit_noise"), 0.1);
    }
  }
}

}  // namespace
}  // namespace keel
