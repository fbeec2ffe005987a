#include "keel/train/update/token_advantages.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/tiny_training.h"

namespace keel {
namespace {

// Two rewards a = 0 and b = 2e-4: mean 1e-4, standard deviation (n - 1) sqrt(2) 1e-4. With TRL's 1e-4 in the divisor
// the advantage is 1 / (1 + sqrt(2)) = sqrt(2) - 1, with verl's 1e-6 it is 1 / (sqrt(2) + 0.01).
TEST(TokenWorth, OfGrpoIsDividedByTheDeviationAndWhatIsAddedToIt) {
  std::vector<Rollout> rollouts(2);
  for (Rollout& rollout : rollouts) rollout.tokens.resize(3);
  rollouts[1].reward = 2e-4;
  EXPECT_FLOAT_EQ(token_worth("grpo", rollouts, {}, {}, 1e-4).advantages[1][2], std::sqrt(2.0f) - 1);
  EXPECT_FLOAT_EQ(token_worth("grpo", rollouts, {}).advantages[1][2], 1 / (std::sqrt(2.0f) + 0.01f));
}

TEST(TokenWorth, OfARunHasWhatItsConfigurationAdds) {
  Config config = tiny_run("dppo_tv");
  config.objective.advantage = "grpo";
  config.objective.advantage_eps = 0.5;
  TinyTraining run(config, warm_model());
  run.step();
  bool learns = false;
  for (size_t first = 0; first < run.rollouts().size();
       first += static_cast<size_t>(config.rollout.samples_per_prompt)) {
    double mean = 0, squares = 0;
    const auto count = static_cast<double>(config.rollout.samples_per_prompt);
    const size_t end = first + static_cast<size_t>(config.rollout.samples_per_prompt);
    for (size_t i = first; i < end; ++i) mean += run.rollouts()[i].reward / count;
    for (size_t i = first; i < end; ++i) squares += std::pow(run.rollouts()[i].reward - mean, 2);
    for (size_t i = first; i < end; ++i) {
      const double expected = (run.rollouts()[i].reward - mean) / (std::sqrt(squares / (count - 1)) + 0.5);
      EXPECT_NEAR(run.advantages()[i][0], expected, 1e-6);
      learns = learns || expected != 0;
    }
  }
  EXPECT_TRUE(learns);
}

}  // namespace
}  // namespace keel
