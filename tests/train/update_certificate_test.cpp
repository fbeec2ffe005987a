// The numbers of a certificate are checked against full enumeration in tests/objective and against float64 logits, for
// every method, in every_method_test.cpp. Here: when there is one.

#include "keel/train/update_certificate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_training.h"

namespace keel {
namespace {

TEST(UpdateCertificate, ComesWithTheFirstStepAndThenEverySoMany) {
  Console console(stderr);
  for (const int64_t every : {0, 1, 3}) {
    Config config = tiny_run("dppo_tv");
    config.record.certificate_every = every;
    const auto trainer = Trainer::start(config, /*replace=*/true, console);
    for (int64_t step = 1; step <= 7; ++step) {
      const bool due = every == 1 || (every == 3 && (step == 1 || step == 4 || step == 7));
      const Json row = trainer->step();
      for (const char* name : {"gain", "max_penalty", "average_penalty", "bound", "divergence"})
        EXPECT_EQ(row.contains(std::string("certificate/") + name), due) << name << ", step " << step;
    }
    remove_tree(config.run.dir);
  }
}

TEST(UpdateCertificate, OfTheSamplersOwnWeightsPromisesNothingAndPaysNothing) {
  Config config = tiny_run("dppo_full_tv");
  config.rollout.weights = "exact";
  StepByStep run(config, warm_model(), warm_model());
  run.begin_step();
  const auto certificate =
      certificate_of(run.model(), {run.prompts(), run.rollouts(), run.advantage(), run.old().head().detach()},
                     run.objective().requirements(), {1.0, 60, 1.0, run.completion_limit()});
  ASSERT_TRUE(certificate);
  EXPECT_NEAR(certificate->gain, 0, 1e-4);
  EXPECT_NEAR(certificate->average_penalty, 0, 1e-4);
  EXPECT_EQ(certificate->divergence, "full_tv");
}

TEST(UpdateCertificate, IsLeftOutWhereNumbersAreNotFinite) {
  StepByStep run(tiny_run("dppo_tv"), warm_model(), warm_model());
  run.begin_step();
  const CausalLm broken = copy_of(run.model());
  const at::NoGradGuard no_grad;
  broken.parameters()[0].value.fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(certificate_of(broken, {run.prompts(), run.rollouts(), run.advantage()}, {}, {1.0, 60, 1.0, 100}));
}

}  // namespace
}  // namespace keel
