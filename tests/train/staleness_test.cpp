// A background sampler whose policy is a fixed number of steps old.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "keel/reward/reward_options.h"
#include "keel/train/update/annotate.h"
#include "keel/train/update/minibatches.h"
#include "tests/support/errors.h"
#include "tests/support/no_threads.h"
#include "tests/support/resumed_training.h"
#include "tests/support/score_in_order.h"

namespace keel {
namespace {

Config stale_config(const std::string& method, int64_t staleness) {
  Config config = tiny_run(method);
  config.rollout.staleness = staleness;
  return config;
}

/// One step of the single-threaded reference loop.
struct ReferenceStep {
  std::vector<Rollout> rollouts;
  Tensor behavior_head;  // LM head of the sampler
  ModelWeights weights;  // after the step
};

/// The training loop in one thread: step t samples with a copy of the weights after step t - 1 - staleness.
std::vector<ReferenceStep> reference_loop(const Config& config, int64_t steps) {
  const LoadedModel policy = starting_with(config, warm_model());
  PromptSources prompt_sources(config, policy);
  const Objective objective = current_objective(config, {});
  const Requirements needs = objective.requirements();
  Optimizer optimizer(MasterWeights(policy.model.trainable()), config.optimizer);
  PromptStream stream = prompt_sources.training();
  std::vector<ReferenceStep> done;
  std::vector<uint64_t> updates{0};  // at the start of each step
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t policy_step = std::max<int64_t>(step - config.rollout.staleness, 0);
    const ModelWeights behavior = policy_step == 0 ? copy_of(warm_model()) : copy_of(done[policy_step - 1].weights);
    const std::vector<Prompt> prompts = stream.next(config.train.prompts_per_step);
    std::vector<Rollout> rollouts = RolloutEngine(sampling_model({behavior}, config.rollout.weights), policy.tokenizer)
                                        .generate(prompts, {.samples_per_prompt = config.rollout.samples_per_prompt,
                                                            .temperature = config.rollout.temperature,
                                                            .max_new_tokens = resolve_max_new_tokens(config),
                                                            .stop_ids = policy.stop_ids,
                                                            .seed = config.run.seed,
                                                            .policy_version = updates[policy_step],
                                                            .top_k = needs.top_k,
                                                            .hidden_states = needs.hidden_states});
    score_in_order(rollouts, prompts, policy.tokenizer, prompt_sources.reward());
    annotate(rollouts, policy.model, behavior, nullptr, nullptr, needs, config.rollout.temperature,
             config.train.tokens_per_batch);
    const TokenAdvantages computed = compute_advantages(objective.method.advantage, rollouts, config.critic);
    const ScoredRollouts scored{rollouts, computed.advantages, behavior.head().value()};
    updates.push_back(updates.back());
    for (int64_t epoch = 0; epoch < config.train.epochs; ++epoch) {
      const auto epoch_index = static_cast<uint64_t>(step * config.train.epochs + epoch);
      for (const std::vector<int64_t>& minibatch :
           minibatches(config.rollouts_per_step(), config.sequences_per_update(), config.rollouts_kept_together(),
                       RandomSequence(config.run.seed, Stream::kShuffle, epoch_index))) {
        accumulate_policy_gradients(policy.model, objective, {.temperature = config.rollout.temperature},
                                    config.train.tokens_per_batch, scored, minibatch, [](const TokenUpdate&) {});
        optimizer.step(
            config.optimizer.lr_at(static_cast<double>(updates.back()), config.planned_updates(config.train.steps)));
        updates.back()++;
      }
    }
    done.push_back({rollouts, behavior.head().value(), copy_of(policy.model)});
  }
  return done;
}

/// Methods that need from the sampler: only mu, log-probs recomputed by the trainer, the top-K tokens, or the whole
/// distribution.
class StaleMethod : public testing::TestWithParam<std::tuple<const char*, int64_t>> {};

TEST_P(StaleMethod, IsBitwiseEqualToTheReferenceLoop) {
  const auto& [method, staleness] = GetParam();
  const Config config = stale_config(method, staleness);
  constexpr int64_t kSteps = 5;
  const std::vector<ReferenceStep> expected = reference_loop(config, kSteps);
  ResumedTraining run(config);
  for (int64_t step = 0; step < kSteps; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    const StepResult result = run.step();
    const std::vector<Rollout>& rollouts = result.experience.rollouts;
    ASSERT_EQ(rollouts.size(), expected[step].rollouts.size());
    for (size_t i = 0; i < rollouts.size(); ++i) {
      const Rollout& reference = expected[step].rollouts[i];
      EXPECT_EQ(rollouts[i].tokens.ids, reference.tokens.ids);
      EXPECT_EQ(rollouts[i].tokens.behavior_logp, reference.tokens.behavior_logp);
      EXPECT_EQ(rollouts[i].policy_version, reference.policy_version);
      EXPECT_EQ(rollouts[i].tokens.recomputed_logp, reference.tokens.recomputed_logp);
      EXPECT_EQ(rollouts[i].reward, reference.reward);
    }
    EXPECT_TRUE(same_weights(run.masters(), expected[step].weights));
    if (result.experience.behavior_head.defined()) {
      EXPECT_TRUE(result.experience.behavior_head.equal(expected[step].behavior_head));
    }
    // Two updates per step; the first steps have a lower staleness.
    if (staleness > 0) {
      EXPECT_EQ(result.metrics.staleness_updates, 2 * std::min(step, staleness));
      EXPECT_TRUE(result.metrics.wait_seconds);
    } else {
      EXPECT_FALSE(result.metrics.staleness_updates);
    }
  }
  EXPECT_FALSE(same_weights(expected.back().weights, expected.front().weights));
}

INSTANTIATE_TEST_SUITE_P(, StaleMethod,
                         testing::Combine(testing::Values("dppo_tv", "tis", "dppo_topk_kl", "dppo_full_tv"),
                                          testing::Values(0, 1, 2)));

/// Runs with state to restore: staleness one and two, rounded masters, dropped groups.
std::vector<Config> configs_to_resume() {
  Config rounded = stale_config("dppo_tv", 1), dynamic = stale_config("dppo_tv", 2);
  rounded.run.precision = "bf16";
  rounded.rollout.weights = "int8";
  dynamic.rollout.dynamic_sampling = true;
  std::vector<Config> configs{stale_config("dppo_tv", 1), stale_config("tis", 2), rounded, dynamic};
  for (const int64_t staleness : {0, 1}) {
    configs.push_back(stale_config("dppo_topk_tv", staleness));
    configs.back().rollout.filter = {.top_p = 0.9};
  }
  return configs;
}

TEST(Staleness, AResumedRunIsBitwiseEqualAfterEveryStep) {
  constexpr int64_t kSteps = 4;
  for (const Config& config : configs_to_resume()) {
    std::vector<SavedTraining> saved;
    std::vector<std::vector<Rollout>> rollouts;
    ResumedTraining whole(config);
    for (int64_t step = 0; step < kSteps; ++step) {
      saved.push_back(whole.saved());
      rollouts.push_back(whole.step().experience.rollouts);
    }
    for (int64_t from = 0; from < kSteps; ++from) {
      SCOPED_TRACE(config.objective.method + " after step " + std::to_string(from));
      ResumedTraining resumed(config, saved[from]);
      for (int64_t step = from; step < kSteps; ++step) {
        const StepResult result = resumed.step();
        ASSERT_EQ(result.experience.rollouts.size(), rollouts[step].size());
        for (size_t i = 0; i < rollouts[step].size(); ++i) {
          EXPECT_EQ(result.experience.rollouts[i].tokens.ids, rollouts[step][i].tokens.ids);
          EXPECT_EQ(result.experience.rollouts[i].tokens.behavior_logp, rollouts[step][i].tokens.behavior_logp);
          EXPECT_EQ(result.experience.rollouts[i].tokens.kept, rollouts[step][i].tokens.kept);
          EXPECT_EQ(result.experience.rollouts[i].tokens.kept.sizes.empty(), config.rollout.filter.keeps_all());
          EXPECT_EQ(result.experience.rollouts[i].policy_version, rollouts[step][i].policy_version);
        }
      }
      EXPECT_TRUE(same_weights(resumed.masters(), whole.masters()));
      EXPECT_EQ(resumed.state().rl.prompt_position, whole.state().rl.prompt_position);
    }
  }
}

// The second batch was sampled before the first update: the policy has drifted from its sampler, which still agrees
// with the trainer at equal weights.
TEST(Staleness, ReportsMismatchAndDriftApart) {
  Config config = stale_config("dppo_tv", 1);
  config.rollout.weights = "exact";
  ResumedTraining run(config);
  const StepMetrics first = run.step().metrics, second = run.step().metrics;
  ASSERT_TRUE(first.drift && second.drift && first.tokens && second.tokens);
  EXPECT_EQ(first.drift->mean, 0);
  EXPECT_GT(second.drift->mean, 1e-4);
  EXPECT_GE(second.drift->max, second.drift->mean);
  EXPECT_LT(second.tokens->mismatch_max, 1e-5);
  EXPECT_EQ(metrics_row(second).at("mismatch/abs_prob_max"), second.tokens->mismatch_max);
  EXPECT_EQ(metrics_row(second).at("policy/drift_mean"), second.drift->mean);
}

TEST(Staleness, KeepsOnePolicyCopyPerStepOfStaleness) {
  ResumedTraining run(stale_config("dppo_tv", 2));
  const size_t weights = warm_model().parameters().size();
  for (int64_t step = 1; step <= 4; ++step) {
    run.step();
    size_t past = 0;
    for (const NamedTensor& tensor : run.saved().optimizer)
      past += tensor.name.starts_with("past.") && !tensor.name.ends_with(".updates") ? 1 : 0;
    EXPECT_EQ(past, weights * std::min<int64_t>(step, 2)) << "after step " << step;
  }
}

/// Prompts of the task; the reward function fails for the prompt with index `bad`.
auto failing_prompt(uint64_t bad) {
  return [bad](const Config& config, const LoadedModel& policy) {
    PromptSources task_prompts(config, policy);
    std::vector<RewardTerm> terms;
    terms.push_back({.name = "mine",
                     .weight = 1,
                     .sources = {},
                     .reward = make_function_reward([bad](const Prompt& prompt, std::string_view text) -> double {
                       if (prompt.id == bad) fail(ExitCode::kRewardProgramFailed, "prompt ", bad, " is cursed");
                       return static_cast<double>(text.size() % 2);
                     })});
    return PromptSources(task_prompts.training(), RewardSum(std::move(terms), OnError::kStop));
  };
}

TEST(Staleness, ASamplerErrorIsRaisedInTheStepOfItsBatch) {
  // Three prompts per step: prompt 7 is in the third batch, which is sampled during the second step.
  ResumedTraining run(stale_config("dppo_tv", 1), {warm_model()}, failing_prompt(7));
  run.step();
  run.step();
  const SavedTraining before = run.saved();
  EXPECT_THAT(error_of(static_cast<int>(ExitCode::kRewardProgramFailed), [&] { run.step(); }),
              HasSubstr("prompt 7 is cursed"));
  EXPECT_EQ(run.state().rl.steps, 2);  // the third step did not happen, and can be repeated
  EXPECT_TRUE(same_weights(run.masters(), before.weights));
  EXPECT_THAT(error_of(static_cast<int>(ExitCode::kRewardProgramFailed), [&] { run.step(); }),
              HasSubstr("prompt 7 is cursed"));
}

TEST(Staleness, SamplesNoBatchBeyondTheLastStep) {
  Config config = stale_config("dppo_tv", 2);
  config.train.steps = 3;
  // Prompt 9 would be in the fourth step, which is never requested.
  ResumedTraining run(config, {warm_model()}, failing_prompt(9));
  for (int step = 0; step < 3; ++step) run.step();
  EXPECT_EQ(run.state().rl.prompt_position, 9);
  EXPECT_THAT(error_of(static_cast<int>(ExitCode::kRewardProgramFailed), [&] { run.step(); }), HasSubstr("cursed"));
}

TEST(Staleness, WithoutASamplerThreadTheRunIsTheSameAndWarns) {
  struct Warnings : StepWatcher {
    void on_warning(const std::string& text) override { messages.push_back(text); }
    std::vector<std::string> messages;
  } warnings;
  const Config config = stale_config("dppo_tv", 2);
  ResumedTraining with_thread(config);
  std::optional<ResumedTraining> without_thread;
  {
    const NoThreads limit;
    without_thread.emplace(config);
  }
  for (int step = 0; step < 3; ++step) {
    with_thread.step();
    without_thread->step(warnings);
    EXPECT_TRUE(same_weights(without_thread->masters(), with_thread.masters())) << step;
  }
  EXPECT_THAT(warnings.messages, testing::ElementsAre(HasSubstr("ulimit -u")));
  {
    const NoThreads limit;
    without_thread.emplace(stale_config("dppo_tv", 1), SavedTraining{warm_model()}, failing_prompt(7));
  }
  without_thread->step();
  without_thread->step();
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_THAT(error_of(5, [&] { without_thread->step(); }), HasSubstr("prompt 7 is cursed"));
}

/// A change of the past policies past.3 and past.4 in a checkpoint with staleness 2 after five steps.
struct PastChange {
  const char* name;
  std::function<void(SavedTraining&)> make;
};

void rename_tensors(SavedTraining& saved, const std::string& from, const std::string& to) {
  for (NamedTensor& tensor : saved.optimizer)
    if (tensor.name.starts_with(from)) tensor.name.replace(0, from.size(), to);
}
void drop_tensors(SavedTraining& saved, const std::string& start) {
  std::erase_if(saved.optimizer, [&](const NamedTensor& tensor) { return tensor.name.starts_with(start); });
}
void set_past_updates(SavedTraining& saved, const Tensor& value) {
  for (NamedTensor& tensor : saved.optimizer)
    if (tensor.name == "past.4.updates") tensor.value = value;
}

TEST(Staleness, InvalidPastPoliciesAreABadInputFile) {
  const Config config = stale_config("dppo_tv", 2);
  ResumedTraining run(config);
  for (int step = 0; step < 5; ++step) run.step();
  const SavedTraining valid = run.saved();
  const std::string weight = "past.4." + warm_model().parameters().front().name;
  const PastChange changes[] = {
      {"all gone", [](SavedTraining& s) { drop_tensors(s, "past."); }},
      {"the first gone", [](SavedTraining& s) { drop_tensors(s, "past.3."); }},
      {"the last gone", [](SavedTraining& s) { drop_tensors(s, "past.4."); }},
      {"updates gone", [](SavedTraining& s) { drop_tensors(s, "past.4.updates"); }},
      {"a weight gone", [&](SavedTraining& s) { drop_tensors(s, weight); }},
      {"a weight of no name",
       [](SavedTraining& s) {
         s.optimizer.push_back({"past.4.novel", at::ones({1})});
       }},
      {"no name", [](SavedTraining& s) { rename_tensors(s, "past.4.updates", "past.4"); }},
      {"a word", [](SavedTraining& s) { rename_tensors(s, "past.4.", "past.x."); }},
      {"huge", [](SavedTraining& s) { rename_tensors(s, "past.4.", "past.99999999999999999999."); }},
      {"negative", [](SavedTraining& s) { rename_tensors(s, "past.4.", "past.-4."); }},
      {"later", [](SavedTraining& s) { rename_tensors(s, "past.4.", "past.20."); }},
      {"one more",
       [](SavedTraining& s) {
         SavedTraining more = s;
         rename_tensors(more, "past.4.", "past.5.");
         for (const NamedTensor& tensor : more.optimizer)
           if (tensor.name.starts_with("past.5.")) s.optimizer.push_back(tensor);
       }},
      {"negative updates", [](SavedTraining& s) { set_past_updates(s, at::full({1}, -5, at::kLong)); }},
      {"updates to come", [](SavedTraining& s) { set_past_updates(s, at::full({1}, s.state.updates + 1, at::kLong)); }},
      {"half updates", [](SavedTraining& s) { set_past_updates(s, at::full({1}, 2.0, at::kDouble)); }},
      {"integer weights",
       [&](SavedTraining& s) {
         for (NamedTensor& tensor : s.optimizer)
           if (tensor.name == weight) tensor.value = tensor.value.to(at::kInt);
       }},
      {"another count of steps", [](SavedTraining& s) { s.state.rl.steps = 12; }},
  };
  for (const PastChange& change : changes) {
    SCOPED_TRACE(change.name);
    SavedTraining saved = valid;
    change.make(saved);
    EXPECT_THAT(error_of(3, [&] { ResumedTraining(config, saved); }),
                AllOf(HasSubstr("a test: "), HasSubstr("past"), HasSubstr("Move it away")));
  }
  Config further = config;
  further.rollout.staleness = 3;
  error_of(3, [&] { ResumedTraining(further, valid); });
  ResumedTraining(config, valid).step();
}

}  // namespace
}  // namespace keel
