#include "keel/train/trainer.h"

#include <ATen/ATen.h>

#include "keel/core/tensor/stopwatch.h"
#include "keel/reward/scoring_queue.h"
#include "keel/rollout/sampling_weights.h"
#include "keel/train/update/annotate.h"
#include "keel/train/update/minibatches.h"
#include "keel/train/update/token_advantages.h"
#include "keel/train/update/unjudged.h"

namespace keel {

StepOutcome Trainer::step(TrainState& state, StepWatcher& watcher) {
  Stopwatch watch(policy_.model.device());
  StepNumbers numbers;
  Experience experience{.prompts = next_prompts(numbers, watcher), .rollouts = {}};
  experience.rollouts = sample_and_score(experience.prompts, state, numbers, watcher);
  numbers.rollout_seconds = watch.lap() - numbers.reward_seconds;

  experience.places = leave_out_unjudged(experience.rollouts);
  annotate(experience);
  experience.worth = token_worth(objective_.method.advantage, experience.rollouts, config_.critic);
  numbers.values = value_numbers(experience.rollouts, experience.worth);
  watcher.ready(experience);
  learn_from(experience, state, numbers, watcher);
  numbers.train_seconds = watch.lap();

  certify(experience, state, numbers);
  adapt_thresholds(state, numbers);
  state.prompts = problems_.training().position();
  state.rl_steps++;
  return {std::move(experience), std::move(numbers)};
}

std::vector<Prompt> Trainer::next_prompts(StepNumbers& numbers, StepWatcher& watcher) {
  PromptStream& stream = problems_.training();
  const SkippedCounts before = stream.skipped();
  std::vector<Prompt> prompts = stream.next(config_.train.prompts_per_step);
  numbers.passed_over = stream.skipped();
  numbers.passed_over.bad -= before.bad;
  numbers.passed_over.too_long -= before.too_long;
  numbers.prompt_limit = problems_.prompt_limit();
  watcher.passed_over(numbers.passed_over);
  return prompts;
}

/// Rewards are computed beside generation: a group is judged while others are still being sampled.
std::vector<Rollout> Trainer::sample_and_score(std::span<const Prompt> prompts, const TrainState& state,
                                               StepNumbers& numbers, StepWatcher& watcher) {
  SamplingRequest request = sampling_request();
  request.policy_version = static_cast<uint64_t>(state.updates);
  ScoringQueue queue(problems_.reward(), prompts, policy_.tokenizer, config_.reward.worker_count());
  std::vector<Rollout> rollouts =
      RolloutEngine(sampling_weights(policy_.model, config_.rollout.weights), policy_.tokenizer)
          .generate(prompts, request,
                    {.group = [&](std::span<Rollout> group) { queue.add(group); },
                     .warning = [&](const std::string& sentence) { watcher.warning(sentence); }});
  Stopwatch watch(policy_.model.device());
  numbers.scores = queue.finish(rollouts);
  numbers.reward_seconds = watch.lap();
  watcher.scored(numbers.scores, rollouts.size());
  numbers.sampling_weights = config_.rollout.weights;
  numbers.logit_noise = config_.rollout.logit_noise;
  numbers.rollouts = rollout_numbers(rollouts, config_.rollout.samples_per_prompt);
  numbers.sampled_tokens = static_cast<double>(token_count(rollouts));
  return rollouts;
}

/// Adds what only the trainer knows.
void Trainer::annotate(Experience& experience) const {
  const Requirements needs = objective_.requirements();
  if (needs.hidden_states) experience.behavior_head = policy_.model.head().detach().clone();
  keel::annotate(experience.rollouts, experience.prompts, policy_.model, reference(), critic(), needs,
                 config_.rollout.temperature, config_.train.tokens_per_batch);
}

void Trainer::learn_from(const Experience& experience, TrainState& state, StepNumbers& numbers, StepWatcher& watcher) {
  const ScoredRollouts scored = experience.scored();
  const int64_t tokens_per_batch = config_.train.tokens_per_batch;
  TokenMetrics tokens;
  GradientNorms norms;
  bool equal_parameters = true;  // until the first update, |pi - mu| is the mismatch between sampler and trainer
  for (int64_t epoch = 0; epoch < config_.train.epochs; ++epoch) {
    for (const std::vector<int64_t>& planned : minibatches(state, epoch)) {
      const std::vector<int64_t> minibatch = places_now(planned, experience.places);
      if (minibatch.empty()) continue;  // nobody could judge any of it
      const auto observe = [&](const DecidedTokens& t) {
        tokens.add(t.stats, t.policy, t.decision, equal_parameters, t.reference_kl);
        watcher.decided(t, minibatch);
      };
      accumulate_policy_gradients(policy_.model, objective_, config_.rollout.temperature, tokens_per_batch, scored,
                                  minibatch, observe, critic_ ? critic_->shared_loss(scored, minibatch) : HiddenLoss{},
                                  optimizer_.loss_scale().value_or(1));
      if (critic_) critic_->accumulate_gradients(scored, minibatch, tokens_per_batch);
      watcher.before_update(minibatch);
      update(state, numbers, norms, watcher);
      equal_parameters = equal_parameters && !policy_learns(state);
    }
  }
  numbers.tokens = tokens.numbers();
  numbers.gradients = norms.numbers();
  numbers.loss_scale = optimizer_.loss_scale();
  if (critic_) numbers.critic = critic_->take_numbers();
  numbers.skipped_updates = state.skipped;
  numbers.trained_tokens =
      static_cast<double>(token_count(experience.rollouts)) * static_cast<double>(config_.train.epochs);
}

/// Of the policy and the critic, with what was accumulated. While the critic warms up, the policy's gradients serve the
/// metrics alone.
void Trainer::update(TrainState& state, StepNumbers& numbers, GradientNorms& norms, StepWatcher& watcher) {
  bool sound = true, excused = true;
  const auto judge = [&](const Optimizer::Outcome& outcome) {
    sound = sound && !outcome.skipped;
    excused = excused && (!outcome.skipped || outcome.overflowed);
  };
  if (policy_learns(state)) {
    numbers.lr = config_.optimizer.lr_at(state.rl_updates++);
    const Optimizer::Outcome outcome = optimizer_.step(*numbers.lr);
    norms.add(outcome);
    state.updates += outcome.skipped ? 0 : 1;
    judge(outcome);
  } else {
    optimizer_.clear_gradients();
  }
  if (critic_) judge(critic_->update(state.critic_updates++));
  const bool overflowed = !sound && excused;
  state.count_update(sound, overflowed);
  if (!sound) watcher.skipped_update(overflowed);
}

/// Measures what the step's updates did, with the weights after the last of them.
void Trainer::certify(const Experience& experience, const TrainState& state, StepNumbers& numbers) const {
  const int64_t every = config_.record.certificate_every;
  if (every == 0 || state.rl_steps % every != 0 || experience.rollouts.empty()) return;
  Stopwatch watch(policy_.model.device());
  numbers.certificate = certificate_of(policy_.model, experience.scored(), objective_.requirements(),
                                       {.temperature = config_.rollout.temperature,
                                        .tokens_per_batch = config_.train.tokens_per_batch,
                                        .range = problems_.reward_range(),
                                        .horizon = longest_completion(config_)});
  numbers.certificate_seconds = watch.lap();
}

/// Says which thresholds the step had, and moves them for the next.
void Trainer::adapt_thresholds(TrainState& state, StepNumbers& numbers) {
  if (!objective_.adapt_target_kept) return;
  numbers.thresholds = thresholds_of(objective_.method.region);
  if (!numbers.tokens) return;  // no token was judged
  const Thresholds first = thresholds_of(objective_at(config_, {}).method.region);
  const Thresholds next = adapted(objective_, first, 1 - numbers.tokens->outside);
  set_thresholds(objective_, next);
  state.delta_low = next.low;
  state.delta_high = next.high;
}

std::vector<std::vector<int64_t>> Trainer::minibatches(const TrainState& state, int64_t epoch) const {
  const auto pass = static_cast<uint64_t>(state.rl_steps * config_.train.epochs + epoch);
  return keel::minibatches(config_.rollouts_per_step(), config_.sequences_per_update(),
                           config_.rollouts_kept_together(), Draws(config_.run.seed, Stream::kShuffle, pass));
}

SamplingRequest Trainer::sampling_request() const {
  return {.samples_per_prompt = config_.rollout.samples_per_prompt,
          .temperature = config_.rollout.temperature,
          .logit_noise = config_.rollout.logit_noise,
          .max_new_tokens = longest_completion(config_),
          .stop_ids = policy_.stop_ids,
          .stop_strings = config_.rollout.stop_strings,
          .seed = config_.run.seed,
          .max_sequences = config_.rollout.max_sequences,
          .top_k = objective_.requirements().top_k,
          .hidden_states = objective_.requirements().hidden_states};
}

Agreement Trainer::agreement() {
  constexpr int64_t kPrompts = 4;
  PromptStream& stream = problems_.training();
  const uint64_t position = stream.position();
  const std::vector<Prompt> prompts = stream.next(kPrompts);
  stream.seek(position);
  // With exact weights and without noise, whatever the run samples with: that those differ is their purpose.
  SamplingRequest request = sampling_request();
  request.logit_noise = 0;
  return sampler_trainer_agreement(policy_.model, policy_.model, policy_.tokenizer, prompts, request,
                                   config_.train.tokens_per_batch);
}

Objective objective_at(const Config& config, const TrainState& state) {
  Objective objective =
      make_objective(config.objective, static_cast<double>(longest_completion(config)), config.reference);
  if (objective.adapt_target_kept && state.delta_low > 0)
    set_thresholds(objective, {state.delta_low, state.delta_high});
  return objective;
}

Trainer::Trainer(const Config& config, const LoadedModel& policy, Problems& problems, const TrainState& state,
                 Companions saved)
    : config_(config),
      policy_(policy),
      problems_(problems),
      objective_(objective_at(config, state)),
      reference_(std::move(saved.reference)),
      optimizer_(policy.model.trainable(), config.optimizer) {
  problems_.training().seek(state.prompts);
  if (!reference_ && objective_.requirements().reference_logp) reference_ = policy.model.frozen();
  if (!config.critic.exists()) return;
  critic_.emplace(saved.critic ? std::move(*saved.critic) : Critic::of(policy.model.merged(), config.critic.own_body()),
                  config.critic, critic_optimizer_options(config.critic, config.optimizer));
}

StepOutcome Trainer::step(TrainState& state) {
  StepWatcher nobody;
  return step(state, nobody);
}

std::vector<NamedTensor> Trainer::optimizer_state() const {
  std::vector<NamedTensor> state = optimizer_.state();
  if (critic_)
    for (NamedTensor& moment : critic_->state()) state.push_back(std::move(moment));
  return state;
}

void Trainer::load_optimizer(const std::vector<NamedTensor>& state, const std::string& place) {
  optimizer_.load(state, place);
  if (critic_) critic_->load(state, place);
}

}  // namespace keel
