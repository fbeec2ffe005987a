#include "keel/train/sft_trainer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/tiny_training.h"

namespace keel {
namespace {

TEST(SftTrainer, ExcludesNonFiniteLossesFromTheAverage) {
  Config config = tiny_run("dppo_tv");
  config.sft.steps = 100;
  const LoadedModel policy = load_starting_model(config, {at::kCPU});
  Demonstrations demonstrations(config, policy);
  SftTrainer trainer(config, policy, MasterWeights(policy.model.trainable()), demonstrations);
  TrainState state;
  StepWatcher no_watcher;
  trainer.step(demonstrations.next(state.sft), state, no_watcher);
  const double before = state.sft.loss_average.value();
  EXPECT_GT(before, 0);
  const Tensor weight = policy.model.parameters()[0].value, original = weight.clone();
  weight.fill_(std::numeric_limits<float>::quiet_NaN());
  trainer.step(demonstrations.next(state.sft), state, no_watcher);
  EXPECT_EQ(state.skipped, 1);
  EXPECT_EQ(state.sft.loss_average, before);
  weight.copy_(original);
  trainer.step(demonstrations.next(state.sft), state, no_watcher);
  EXPECT_EQ(state.skipped_in_a_row, 0);
  EXPECT_NE(state.sft.loss_average, before);
  EXPECT_TRUE(std::isfinite(state.sft.loss_average.value()));
}

}  // namespace
}  // namespace keel
