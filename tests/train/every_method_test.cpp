// Every row of the table of methods trains: the sampler and the trainer supply what its region requires.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "keel/train/trainer.h"

namespace keel {
namespace {

Config tiny_run(const std::string& method) {
  Config config = quickstart_config();
  config.run.dir = (std::filesystem::temp_directory_path() / "keel_every_method_test").string();
  config.model.hidden_size = 16;
  config.model.heads = 2;
  config.sft.steps = 0;
  config.train.prompts_per_step = 3;
  config.rollout.samples_per_prompt = 4;
  config.train.sequences_per_update = 6;
  config.train.tokens_per_batch = 100;  // several packed batches in an update
  config.objective.method = method;
  config.optimizer.lr = 1e-2;
  return config;
}

TEST(EveryMethod, MakesStepsWithFiniteNumbersOrIsRefusedForANamedReason) {
  Console console(stderr);
  int trained = 0;
  for (const Method& row : methods()) {
    SCOPED_TRACE(row.name);
    const std::string missing = missing_for_training(requirements(row.region));
    if (!missing.empty()) {
      EXPECT_THROW(make_objective({.method = row.name}, 1.0), Error);
      continue;
    }
    const auto trainer = Trainer::start(tiny_run(row.name), /*replace=*/true, console);
    for (int step = 0; step < 3; ++step) {
      const Json metrics = trainer->step();
      for (const char* key : {"optimizer/grad_norm", "policy/entropy", "trust_region/masked", "ratio/mean"})
        EXPECT_TRUE(std::isfinite(metrics[key].get<double>())) << key;
      EXPECT_EQ(metrics["skipped_steps"], 0);
    }
    for (const NamedTensor& parameter : trainer->model().parameters())
      EXPECT_TRUE(parameter.value.isfinite().all().item<bool>()) << parameter.name;
    ++trained;
  }
  EXPECT_GE(trained, 40);
}

/// At equal parameters and with exact sampling pi is mu, so what compares the two must find nothing: top-K ids, hidden
/// states, the sampler's head and the recomputed log-probabilities all have to arrive at the right token for that.
TEST(EveryMethod, SeesNoDivergenceBeforeTheFirstUpdate) {
  Console console(stderr);
  for (const char* method :
       {"dppo_tv", "dppo_kl", "dppo_topk_tv", "dppo_topk_kl", "dppo_full_tv", "dppo_full_kl", "minirl"}) {
    SCOPED_TRACE(method);
    Config config = tiny_run(method);
    config.rollout.weights = "exact";
    config.train.sequences_per_update = 0;  // one update: everything is measured before it
    const auto trainer = Trainer::start(config, /*replace=*/true, console);
    const Json metrics = trainer->step();
    EXPECT_LT(metrics["trust_region/divergence_max"].get<double>(), 1e-5);
    EXPECT_EQ(metrics["trust_region/masked"].get<double>(), 0.0);
  }
}

}  // namespace
}  // namespace keel
