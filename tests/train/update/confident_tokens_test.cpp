// A network that is confident of almost every token: at equal weights all divergences are finite.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/tensors.h"
#include "tests/support/tiny_training.h"

namespace keel {
namespace {

/// The warm network with its logits scaled up.
ModelWeights sure_model(double scale) {
  const ModelWeights model = copy_of(warm_model());
  model.head().value().mul_(scale);
  return model;
}

TEST(ConfidentTokens, HaveFiniteDivergencesAtEqualWeights) {
  for (const char* method : {"trm_max", "trm_avg", "dppo_kl", "dppo_topk_kl", "dppo_full_kl"}) {
    for (const double scale : {4.0, 16.0}) {
      Config config = tiny_run(method);
      config.rollout.weights = "exact";
      config.train.epochs = 1;
      const ModelWeights model = sure_model(scale);
      TinyTraining run(config, model);
      int64_t confident = 0;
      run.when_decided = [&](const TokenUpdate& tokens) {
        confident += (tokens.loss_inputs.other_logp < -18).sum().item<int64_t>();
        EXPECT_TRUE(tokens.decision.keep.all().item<bool>()) << method << " " << scale;
        EXPECT_LT(tokens.decision.divergence.max().item<double>(), 1e-4) << method << " " << scale;
      };
      run.step();
      if (scale == 16) {
        EXPECT_GT(confident, 10) << method;  // 1 - p below 1e-8, so p rounds to 1 in float32
      }
    }
  }
}

TEST(ConfidentTokens, KeepOtherLogpWithTheRecomputedAnchor) {
  Config config = tiny_run("dppo_kl");
  config.objective.anchor = "recomputed";
  config.train.epochs = 1;
  const ModelWeights model = sure_model(16);
  TinyTraining run(config, model);
  run.when_decided = [&](const TokenUpdate& tokens) {
    EXPECT_LT(largest_difference(tokens.loss_inputs.old_other_logp, tokens.loss_inputs.other_logp), 1e-3);
    EXPECT_TRUE(tokens.decision.keep.all().item<bool>());
  };
  run.step();
  for (const Rollout& r : run.rollouts()) EXPECT_EQ(r.tokens.recomputed_other_logp.size(), r.tokens.size());
}

}  // namespace
}  // namespace keel
