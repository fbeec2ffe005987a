// Groups of equal rewards are dropped, and further prompts sampled in their place.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "keel/reward/reward_options.h"
#include "tests/support/resumed_training.h"

namespace keel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The first completion of a group is worth 1 and the others nothing; those of flat prompts are all worth the same.
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

/// The prompts of the task at these places, or all in their order, of which some are flat.
auto problems_with(std::set<uint64_t> flat, std::vector<uint64_t> places = {}) {
  return [=](const Config& config, const LoadedModel& policy) {
    PromptSources of_task(config, policy);
    PromptStream all = of_task.training();
    const auto prompt_at = [all, places](uint64_t place) mutable -> std::variant<Prompt, SkippedRow> {
      all.seek(places.empty() ? place : places.at(place));
      return all.next(1).at(0);
    };
    std::vector<RewardTerm> terms;
    terms.push_back({.name = "mine", .weight = 1, .sources = {}, .reward = std::make_unique<FirstWins>(flat)});
    return PromptSources(PromptStream(prompt_at), RewardSum(std::move(terms), OnError::kStop));
  };
}

Config dynamic_run() {
  Config config = tiny_run("dppo_tv");  // three prompts in a step
  config.rollout.dynamic_sampling = true;
  return config;
}

std::vector<uint64_t> ids_of(const std::vector<Prompt>& prompts) {
  std::vector<uint64_t> ids;
  for (const Prompt& prompt : prompts) ids.push_back(prompt.id);
  return ids;
}

TEST(DynamicSampling, TakesTheNextPromptsWhoseRewardsDiffer) {
  ResumedTraining run(dynamic_run(), {warm_model()}, problems_with({0, 2, 4, 7}));
  // 0 1 2 gives 1, 3 4 5 gives 3 and 5.
  StepResult outcome = run.step();
  EXPECT_THAT(ids_of(outcome.experience.prompts), ElementsAre(1, 3, 5));
  EXPECT_EQ(outcome.experience.rollouts.size(), 12);
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(outcome.experience.rollouts[i].prompt, static_cast<int64_t>(i / 4));
  EXPECT_EQ(run.state().rl.prompts, 6);
  Json row = metrics_row(outcome.metrics);
  EXPECT_EQ(row.at("rollout/batches"), 2);
  EXPECT_EQ(row.at("rollout/groups_sampled"), 6);
  EXPECT_EQ(row.at("rollout/groups_dropped"), 3);
  EXPECT_EQ(row.at("rollout/groups"), 3);
  EXPECT_EQ(row.at("reward/zero_std_groups"), 0.5);  // of all that was sampled: 3 of 6
  EXPECT_EQ(row.at("reward/mean"), 3.0 / 24);        // 3 of 24 completions are worth 1
  // 6 7 8 gives two, and 9 of 9 10 11 the third: 10 and 11 are left to the next step.
  outcome = run.step();
  EXPECT_THAT(ids_of(outcome.experience.prompts), ElementsAre(6, 8, 9));
  EXPECT_EQ(run.state().rl.prompts, 10);
  EXPECT_EQ(metrics_row(outcome.metrics).at("rollout/groups_dropped"), 1);
  outcome = run.step();
  EXPECT_THAT(ids_of(outcome.experience.prompts), ElementsAre(10, 11, 12));
  EXPECT_EQ(metrics_row(outcome.metrics).at("rollout/batches"), 1);
}

TEST(DynamicSampling, LearnsWhatARunOnThosePromptsAloneWouldLearn) {
  for (const int64_t staleness : {0, 1}) {
    Config dynamic = dynamic_run(), plain = tiny_run("dppo_tv");
    dynamic.rollout.staleness = plain.rollout.staleness = staleness;
    plain.train.steps = 3;  // of which the prompts are listed
    ResumedTraining one(dynamic, {warm_model()}, problems_with({0, 2, 4, 7}));
    ResumedTraining other(plain, {warm_model()}, problems_with({}, {1, 3, 5, 6, 8, 9, 10, 11, 12}));
    for (int step = 0; step < 3; ++step) {
      one.step();
      other.step();
      EXPECT_TRUE(same_weights(one.masters(), other.masters())) << "step " << step;
    }
    EXPECT_FALSE(same_weights(one.masters(), warm_model()));
  }
}

/// Remembers what it is warned of, and what was passed over.
struct Warned : StepWatcher {
  std::vector<std::string> sentences;
  std::vector<uint64_t> bad_rows;  // of each step
  void on_warning(const std::string& sentence) override { sentences.push_back(sentence); }
  void on_skipped_rows(const SkippedCounts& rows) override { bad_rows.push_back(rows.bad); }
};

TEST(DynamicSampling, CountsARowThatIsPassedOverOnceThoughItIsReadTwice) {
  const auto every_second_row = [](const Config& config, const LoadedModel& policy) {
    PromptStream all = PromptSources(config, policy).training();
    const auto prompt_at = [all](uint64_t place) mutable -> std::variant<Prompt, SkippedRow> {
      if (place % 2 == 1) return SkippedRow{SkippedRow::Why::kBad, "odd"};
      all.seek(place / 2);
      return all.next(1).at(0);
    };
    std::vector<RewardTerm> terms;
    terms.push_back(
        {.name = "mine", .weight = 1, .sources = {}, .reward = std::make_unique<FirstWins>(std::set<uint64_t>{0})});
    return PromptSources(PromptStream(prompt_at), RewardSum(std::move(terms), OnError::kStop));
  };
  ResumedTraining run(dynamic_run(), {warm_model()}, every_second_row);
  Warned watcher;
  // The prompts of rows 0 2 4 give two, and that of row 6 the third: rows 8 and 10 were read as well, and 7 and 9 on
  // the way to them. They are the next step's, which takes 8 10 12.
  run.step(watcher);
  EXPECT_EQ(run.state().rl.prompts, 7);
  run.step(watcher);
  EXPECT_EQ(run.state().rl.prompts, 13);
  EXPECT_THAT(watcher.bad_rows, ElementsAre(3, 3));  // 1 3 5, and 7 9 11
}

TEST(DynamicSampling, GoesOnWithFewerGroupsWhenTheBatchesAreUsedUp) {
  Config config = dynamic_run();
  config.rollout.max_batches = 2;
  config.train.sequences_per_update = 4;  // a group in each update
  config.train.shuffle = "prompts";
  config.train.epochs = 1;
  std::set<uint64_t> flat;
  for (uint64_t id = 0; id < 18; ++id)
    if (id != 4) flat.insert(id);
  ResumedTraining run(config, {warm_model()}, problems_with(flat));
  Warned warned;
  StepResult outcome = run.step(warned);
  EXPECT_THAT(ids_of(outcome.experience.prompts), ElementsAre(4));
  EXPECT_EQ(metrics_row(outcome.metrics).at("rollout/groups"), 1);
  EXPECT_EQ(metrics_row(outcome.metrics).at("rollout/groups_dropped"), 5);
  EXPECT_EQ(run.state().rl.updates, 1);  // of three groups one is there
  EXPECT_EQ(run.state().rl.prompts, 6);
  ASSERT_EQ(warned.sentences.size(), 1);
  EXPECT_THAT(warned.sentences[0], HasSubstr("only 1 of 6 groups have differing rewards; expected 3"));
  // Nothing at all: no update, and the run goes on behind those prompts.
  const SavedTraining before = run.saved();
  for (int step = 2; step <= 3; ++step) {
    outcome = run.step(warned);
    EXPECT_TRUE(outcome.experience.rollouts.empty());
    EXPECT_EQ(metrics_row(outcome.metrics).at("rollout/groups"), 0);
    EXPECT_EQ(metrics_row(outcome.metrics).at("reward/mean"), 0);
    EXPECT_EQ(run.state().rl.prompts, 6 * static_cast<uint64_t>(step));
  }
  EXPECT_EQ(run.state().rl.updates, 1);
  EXPECT_TRUE(same_weights(run.masters(), before.weights));
  EXPECT_EQ(warned.sentences.size(), 1);  // told once
  EXPECT_THAT(ids_of(run.step().experience.prompts), ElementsAre(18, 19, 20));
}

TEST(DynamicSampling, FewerUpdatesDoNotHoldUpTheLearningRate) {
  // Five steps of three updates, linear down to 0: of the first step one group is there, of the next two none, of the
  // fourth and the fifth all. The policy waits a step, so that twelve updates are planned for it and fifteen for the
  // critic: the fourth step's last is their ninth and their twelfth, with 4/12 and 4/15 of the rate, which fall to 1/12
  // and 1/15 in the fifth.
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
  ResumedTraining run(config, {warm_model()}, problems_with(flat));
  const StepResult waiting = run.step();
  EXPECT_EQ(waiting.metrics.critic->lr, 0.15);
  EXPECT_FALSE(waiting.metrics.lr);
  run.step();
  run.step();
  ResumedTraining resumed(config, run.saved(), problems_with(flat));
  for (ResumedTraining* of : {&run, &resumed}) {
    StepResult outcome = of->step();
    EXPECT_NEAR(*outcome.metrics.lr, 0.004, 1e-15);
    EXPECT_NEAR(outcome.metrics.critic->lr, 0.04, 1e-15);
    outcome = of->step();
    EXPECT_NEAR(*outcome.metrics.lr, 0.001, 1e-15);
    EXPECT_NEAR(outcome.metrics.critic->lr, 0.01, 1e-15);
  }
}

}  // namespace
}  // namespace keel
