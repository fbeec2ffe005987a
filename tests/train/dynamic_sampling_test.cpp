// Dynamic sampling drops groups of equal rewards and samples further prompts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "keel/reward/reward_options.h"
#include "tests/support/errors.h"
#include "tests/support/resumed_training.h"

namespace keel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Rewards the first completion of a group with 1 and the others with 0; all completions of flat prompts with 0.
class FirstWins : public Reward {
 public:
  explicit FirstWins(std::set<uint64_t> flat) : flat_(std::move(flat)) {}
  Scores operator()(std::span<const RewardSample> samples) const override {
    Scores scores;
    for (size_t i = 0; i < samples.size(); ++i)
      scores.rewards.push_back(i == 0 && !flat_.contains(samples[0].prompt.id) ? 1 : 0);
    return scores;
  }

 private:
  std::set<uint64_t> flat_;
};

/// The task's prompts with these indices, or all of them; some are flat.
auto make_prompt_sources(std::set<uint64_t> flat, std::vector<uint64_t> indices = {}) {
  return [=](const Config& config, const LoadedModel& policy) {
    PromptSources task_prompts(config, policy);
    PromptStream all = task_prompts.training();
    const auto prompt_at = [all, indices](uint64_t index) mutable -> std::variant<Prompt, SkippedRow> {
      all.seek(indices.empty() ? index : indices.at(index));
      return all.next(1).at(0);
    };
    std::vector<RewardTerm> terms;
    terms.push_back({.name = "mine", .weight = 1, .sources = {}, .reward = std::make_unique<FirstWins>(flat)});
    return PromptSources(PromptStream(prompt_at), RewardSum(std::move(terms), OnError::kStop));
  };
}

Config dynamic_config() {
  Config config = tiny_run("dppo_tv");  // three prompts in a step
  config.rollout.dynamic_sampling = true;
  return config;
}

std::vector<uint64_t> ids_of(const std::vector<Prompt>& prompts) {
  std::vector<uint64_t> ids;
  for (const Prompt& prompt : prompts) ids.push_back(prompt.id);
  return ids;
}

int64_t kept_bytes(std::span<const Rollout> rollouts) {
  int64_t bytes = 0;
  for (const Rollout& rollout : rollouts) bytes += rollout.tokens.kept.bytes();
  return bytes;
}

TEST(DynamicSampling, CountsTheTokenSetsOfAllBatchesOfAStep) {
  Config config = tiny_run("dppo_tv");
  config.rollout.filter.top_p = 0.9;
  config.optimizer.lr = 0;  // the second step samples from the same policy
  ResumedTraining plain(config, {warm_model()}, make_prompt_sources({0, 2, 4, 7}));
  const StepResult first = plain.step(), second = plain.step();
  const std::span<const Rollout> all = first.experience.rollouts;
  const int64_t kept_group = kept_bytes(all.subspan(4, 4)), last_batch = kept_bytes(second.experience.rollouts);
  config.rollout.dynamic_sampling = true;  // prompt 1 stays while 3 4 5 are sampled
  const auto step_within = [&](int64_t limit) {
    config.rollout.kept_bytes_limit = limit;
    ResumedTraining(config, {warm_model()}, make_prompt_sources({0, 2, 4, 7})).step();
  };
  ASSERT_LT(kept_bytes(all), kept_group + last_batch);
  EXPECT_THAT(error_of(2, [&] { step_within(kept_group + last_batch - 1); }),
              HasSubstr("the token sets of truncated sampling take"));
  EXPECT_NO_THROW(step_within(kept_group + last_batch));
}

TEST(DynamicSampling, KeepsTheNextPromptsWithDifferingRewards) {
  ResumedTraining run(dynamic_config(), {warm_model()}, make_prompt_sources({0, 2, 4, 7}));
  // Of 0 1 2 it keeps 1, of 3 4 5 it keeps 3 and 5.
  StepResult result = run.step();
  EXPECT_THAT(ids_of(result.experience.prompts), ElementsAre(1, 3, 5));
  EXPECT_EQ(result.experience.rollouts.size(), 12);
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(result.experience.rollouts[i].prompt, static_cast<int64_t>(i / 4));
  EXPECT_EQ(run.state().rl.prompt_position, 6);
  Json row = metrics_row(result.metrics);
  EXPECT_EQ(row.at("rollout/batches"), 2);
  EXPECT_EQ(row.at("rollout/groups_sampled"), 6);
  EXPECT_EQ(row.at("rollout/groups_dropped"), 3);
  EXPECT_EQ(row.at("rollout/groups"), 3);
  EXPECT_EQ(row.at("reward/zero_std_groups"), 0.5);  // over all sampled groups: 3 of 6
  EXPECT_EQ(row.at("reward/mean"), 3.0 / 24);        // 3 of 24 completions have reward 1
  // It keeps two of 6 7 8, and 9 of 9 10 11: the next step gets 10 and 11.
  result = run.step();
  EXPECT_THAT(ids_of(result.experience.prompts), ElementsAre(6, 8, 9));
  EXPECT_EQ(run.state().rl.prompt_position, 10);
  EXPECT_EQ(metrics_row(result.metrics).at("rollout/groups_dropped"), 1);
  result = run.step();
  EXPECT_THAT(ids_of(result.experience.prompts), ElementsAre(10, 11, 12));
  EXPECT_EQ(metrics_row(result.metrics).at("rollout/batches"), 1);
}

TEST(DynamicSampling, EqualsARunOnTheKeptPrompts) {
  for (const int64_t staleness : {0, 1}) {
    Config dynamic = dynamic_config(), plain = tiny_run("dppo_tv");
    dynamic.rollout.staleness = plain.rollout.staleness = staleness;
    plain.train.steps = 3;  // on the listed prompts
    ResumedTraining one(dynamic, {warm_model()}, make_prompt_sources({0, 2, 4, 7}));
    ResumedTraining other(plain, {warm_model()}, make_prompt_sources({}, {1, 3, 5, 6, 8, 9, 10, 11, 12}));
    for (int step = 0; step < 3; ++step) {
      one.step();
      other.step();
      EXPECT_TRUE(same_weights(one.masters(), other.masters())) << "step " << step;
    }
    EXPECT_FALSE(same_weights(one.masters(), warm_model()));
  }
}

/// Records warnings and skipped rows.
struct RecordingWatcher : StepWatcher {
  std::vector<std::string> sentences;
  std::vector<uint64_t> bad_rows;  // of each step
  void on_warning(const std::string& sentence) override { sentences.push_back(sentence); }
  void on_skipped_rows(const SkippedCounts& rows) override { bad_rows.push_back(rows.bad); }
};

TEST(DynamicSampling, CountsASkippedRowOnceThoughItIsReadTwice) {
  const auto every_second_row = [](const Config& config, const LoadedModel& policy) {
    PromptStream all = PromptSources(config, policy).training();
    const auto prompt_at = [all](uint64_t index) mutable -> std::variant<Prompt, SkippedRow> {
      if (index % 2 == 1) return SkippedRow{SkippedRow::Why::kBad, "odd"};
      all.seek(index / 2);
      return all.next(1).at(0);
    };
    std::vector<RewardTerm> terms;
    terms.push_back(
        {.name = "mine", .weight = 1, .sources = {}, .reward = std::make_unique<FirstWins>(std::set<uint64_t>{0})});
    return PromptSources(PromptStream(prompt_at), RewardSum(std::move(terms), OnError::kStop));
  };
  ResumedTraining run(dynamic_config(), {warm_model()}, every_second_row);
  RecordingWatcher watcher;
  // The step keeps two prompts of rows 0 2 4 and that of row 6. It also read rows 7 to 10, which the next step reads
  // again, and keeps 8 10 12.
  run.step(watcher);
  EXPECT_EQ(run.state().rl.prompt_position, 7);
  run.step(watcher);
  EXPECT_EQ(run.state().rl.prompt_position, 13);
  EXPECT_THAT(watcher.bad_rows, ElementsAre(3, 3));  // 1 3 5, and 7 9 11
}

TEST(DynamicSampling, TrainsOnFewerGroupsAfterMaxBatches) {
  Config config = dynamic_config();
  config.rollout.max_batches = 2;
  config.train.sequences_per_update = 4;  // one group per update
  config.train.shuffle = "prompts";
  config.train.epochs = 1;
  std::set<uint64_t> flat;
  for (uint64_t id = 0; id < 18; ++id)
    if (id != 4) flat.insert(id);
  ResumedTraining run(config, {warm_model()}, make_prompt_sources(flat));
  RecordingWatcher warned;
  StepResult result = run.step(warned);
  EXPECT_THAT(ids_of(result.experience.prompts), ElementsAre(4));
  EXPECT_EQ(metrics_row(result.metrics).at("rollout/groups"), 1);
  EXPECT_EQ(metrics_row(result.metrics).at("rollout/groups_dropped"), 5);
  EXPECT_EQ(run.state().rl.updates, 1);  // one of three groups is left
  EXPECT_EQ(run.state().rl.prompt_position, 6);
  ASSERT_EQ(warned.sentences.size(), 1);
  EXPECT_THAT(warned.sentences[0], HasSubstr("only 1 of 6 groups have differing rewards; a step needs 3"));
  // No group is left: no update, and the next step begins after these prompts.
  const SavedTraining before = run.saved();
  for (int step = 2; step <= 3; ++step) {
    result = run.step(warned);
    EXPECT_TRUE(result.experience.rollouts.empty());
    EXPECT_EQ(metrics_row(result.metrics).at("rollout/groups"), 0);
    EXPECT_EQ(metrics_row(result.metrics).at("reward/mean"), 0);
    EXPECT_EQ(run.state().rl.prompt_position, 6 * static_cast<uint64_t>(step));
  }
  EXPECT_EQ(run.state().rl.updates, 1);
  EXPECT_TRUE(same_weights(run.masters(), before.weights));
  EXPECT_EQ(warned.sentences.size(), 1);  // one warning in total
  EXPECT_THAT(ids_of(run.step().experience.prompts), ElementsAre(18, 19, 20));
}

TEST(DynamicSampling, SkippedUpdatesDoNotDelayTheLearningRate) {
  // Five steps of three updates with linear decay to 0. The first step keeps one group, the next two none, the last two
  // all. With one critic warm-up step, twelve updates are planned for the policy and fifteen for the critic. The last
  // update of step four is their ninth and twelfth, with 4/12 and 4/15 of the rate; in step five 1/12 and 1/15.
  Config config = tiny_run("ppo_gae");
  config.rollout.dynamic_sampling = true;
  config.rollout.max_batches = 2;
  config.train.sequences_per_update = 4;
  config.train.shuffle = "prompts";
  config.train.epochs = 1;
  config.train.steps = 5;
  config.critic.warmup_steps = 1;
  config.critic.lr = 0.15;
  config.optimizer.lr = 0.012;
  config.optimizer.schedule = "linear";
  std::set<uint64_t> flat;
  for (uint64_t id = 0; id < 18; ++id)
    if (id != 4) flat.insert(id);
  ResumedTraining run(config, {warm_model()}, make_prompt_sources(flat));
  const StepResult waiting = run.step();
  EXPECT_EQ(waiting.metrics.critic->lr, 0.15);
  EXPECT_FALSE(waiting.metrics.lr);
  run.step();
  run.step();
  ResumedTraining resumed(config, run.saved(), make_prompt_sources(flat));
  for (ResumedTraining* of : {&run, &resumed}) {
    StepResult result = of->step();
    EXPECT_NEAR(*result.metrics.lr, 0.004, 1e-15);
    EXPECT_NEAR(result.metrics.critic->lr, 0.04, 1e-15);
    result = of->step();
    EXPECT_NEAR(*result.metrics.lr, 0.001, 1e-15);
    EXPECT_NEAR(result.metrics.critic->lr, 0.01, 1e-15);
  }
}

}  // namespace
}  // namespace keel
