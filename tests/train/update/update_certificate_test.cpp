// When a step has a certificate. Its values are compared with full enumeration in tests/objective, and with float64
// logits for every method in every_method_test.cpp.

#include "keel/train/update/update_certificate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_training.h"

namespace keel {
namespace {

TEST(UpdateCertificate, IsComputedInTheFirstStepAndAtEachInterval) {
  for (const int64_t every : {0, 1, 3}) {
    Config config = tiny_run("dppo_tv");
    config.record.certificate_every = every;
    TinyTraining run(config);
    for (int64_t step = 1; step <= 7; ++step) {
      const bool due = every == 1 || (every == 3 && (step == 1 || step == 4 || step == 7));
      const Json row = metrics_row(run.step());
      for (const char* name : {"gain", "max_penalty", "average_penalty", "average_penalty_low", "bound",
                               "standard_error", "improved", "divergence"})
        EXPECT_EQ(row.contains(std::string("certificate/") + name), due) << name << ", step " << step;
    }
  }
}

TEST(UpdateCertificate, OfUnchangedWeightsHasNoGainAndNoPenalty) {
  Config config = tiny_run("dppo_full_tv");
  config.rollout.weights = "exact";
  TinyTraining run(config, warm_model());
  std::optional<ImprovementCertificate> certificate;
  run.when_ready = [&] {
    certificate = compute_certificate(run.model(), run.experience().scored(), run.objective().requirements(),
                                      {1.0, 60, RewardRange{0, 1}, run.max_completion_tokens()});
  };
  run.step();
  ASSERT_TRUE(certificate);
  EXPECT_NEAR(certificate->gain, 0, 1e-4);
  EXPECT_NEAR(certificate->average_penalty, 0, 1e-4);
  EXPECT_EQ(certificate->divergence, "full_tv");
}

TEST(UpdateCertificate, ShowsNoImprovementWithoutLearning) {
  Config config = tiny_run("dppo_tv");
  config.optimizer.lr = 0;
  config.rollout.weights = "exact";
  TinyTraining run(config, warm_model());
  int above = 0, taught = 0;
  for (int step = 0; step < 30; ++step) {
    const Json row = metrics_row(run.step());
    above += row.at("certificate/bound").get<double>() > 0;
    taught += row.at("reward/zero_std_groups").get<double>() < 1;
    EXPECT_EQ(row.at("certificate/improved"), 0) << row.dump();
  }
  EXPECT_GT(above, 5);  // rounding puts the bound on either side of 0
  EXPECT_GT(taught, 20);
}

TEST(UpdateCertificate, ShowsNoImprovementUnlessTheGainExceedsThePenalty) {
  // Many completions and one small step: the gain exceeds the error, but not the penalty of the theorem.
  Config config = tiny_run("pg_is");
  config.rollout.weights = "exact";
  config.train.prompts_per_step = 64;
  config.rollout.samples_per_prompt = 16;
  config.train.tokens_per_batch = 4096;
  config.train.epochs = 1;
  config.optimizer.lr = 3e-5;
  TinyTraining run(config, warm_model());
  const Json row = metrics_row(run.step());
  const auto number = [&](const char* name) { return row.at(name).get<double>(); };
  EXPECT_GT(number("certificate/gain"), 2 * number("certificate/standard_error")) << row.dump();
  const double penalty = std::min(number("certificate/max_penalty"), number("certificate/average_penalty"));
  EXPECT_NEAR(number("certificate/bound"), number("certificate/gain") - penalty, 1e-12);
  EXPECT_GT(penalty, number("certificate/gain"));
  EXPECT_EQ(row.at("certificate/improved"), 0);
}

TEST(UpdateCertificate, IsMissingForNonFiniteLogProbs) {
  TinyTraining run(tiny_run("dppo_tv"), warm_model());
  run.step();
  const ModelWeights broken = copy_of(run.model());
  broken.parameters()[0].value.fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(compute_certificate(broken, run.experience().scored(), {}, {1.0, 60, RewardRange{0, 1}, 100}));
}

}  // namespace
}  // namespace keel
