#include "keel/train/trainer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/train/update/annotate.h"
#include "keel/train/update/minibatches.h"
#include "keel/train/update/reward_penalty.h"
#include "keel/train/update/token_advantages.h"
#include "keel/train/update/truncated.h"
#include "keel/train/update/unjudged.h"

namespace keel {
namespace {

// Names of past policies among the optimizer's state: "past.STEP.WEIGHT" and "past.STEP.updates".
constexpr const char *kPast = "past.", *kUpdates = "updates";
using PastTensors = std::map<int64_t, std::map<std::string, Tensor>>;  // by step, and by what follows it

template <class... Parts>
[[noreturn]] void refuse_past(const std::string& place, const Parts&... parts) {
  fail(ExitCode::kBadInput, place, ": ", parts...,
       "; the checkpoint is damaged or belongs to another run. Move it away ", "to resume from an older one");
}

PastTensors past_tensors(const std::vector<NamedTensor>& state, const std::string& place) {
  PastTensors saved;
  for (const NamedTensor& tensor : state) {
    if (!tensor.name.starts_with(kPast)) continue;
    const char *const digits = tensor.name.data() + std::string_view(kPast).size(), *const end = tensor.name.data() +
                                                                                                 tensor.name.size();
    int64_t step = 0;
    const auto [rest, error] = std::from_chars(digits, end, step);
    if (error != std::errc() || rest == end || *rest != '.')
      refuse_past(place, "tensor \"", tensor.name, "\" is of no step");
    saved[step][std::string(rest + 1, end)] = tensor.value;
  }
  return saved;
}

/// They are those that the batches under way are sampled with. A first step that was given up has remembered the policy
/// that it began with.
void require_past_steps(const PastTensors& saved, int64_t rl_steps, int64_t staleness, const std::string& place) {
  const int64_t first = std::max<int64_t>(rl_steps - staleness, 0);
  const int64_t end = staleness > 0 && rl_steps == 0 && !saved.empty() ? 1 : rl_steps;
  if (std::ssize(saved) == end - first &&
      (saved.empty() || (saved.begin()->first == first && saved.rbegin()->first == end - 1)))
    return;
  std::vector<std::string> steps;
  for (const auto& [step, tensors] : saved) steps.push_back(std::to_string(step));
  refuse_past(place, "after ", rl_steps, " RL steps, with rollout.staleness ", staleness,
              ", it must have the past policies of ", end - first, " steps from ", first, " on, and has those of ",
              steps.empty() ? "none" : joined(steps));
}

int64_t past_updates(const std::map<std::string, Tensor>& tensors, int64_t now, int64_t step,
                     const std::string& place) {
  const auto found = tensors.find(kUpdates);
  const bool is_count =
      found != tensors.end() && found->second.scalar_type() == at::kLong && found->second.numel() == 1;
  const int64_t updates = is_count ? found->second.item<int64_t>() : -1;
  if (updates < 0 || updates > now)
    refuse_past(place, "tensor \"", kPast, step, ".", kUpdates, "\" is missing or no number of updates from 0 to ",
                now);
  return updates;
}

}  // namespace

StepOutcome Trainer::step(TrainState& state, StepWatcher& watcher) {
  Stopwatch watch(policy_.model.device());
  StepNumbers numbers;
  const Objective objective = objective_at(config_, state.rl);
  RolloutBatch batch = next_batch(state, watcher);
  const double waited = watch.lap();
  if (ahead_) numbers.wait_seconds = waited;
  note(batch, state, numbers, watcher);

  Experience experience = experience_of(std::move(batch), watcher);
  find_worth(experience, objective, numbers);
  if (config_.train.mask_truncated) numbers.masked = leave_out_truncated(experience.rollouts, experience.places);
  numbers.values = value_numbers(experience.rollouts, experience.worth);
  watcher.ready(experience);
  learn_from(experience, objective, state, numbers, watcher);
  numbers.train_seconds = watch.lap();

  certify(experience, state, numbers);
  adapt(objective, experience, state.rl, numbers);
  state.rl.prompts = experience.position;
  state.rl.steps++;
  return {std::move(experience), std::move(numbers)};
}

RolloutBatch Trainer::next_batch(const TrainState& state, const StepWatcher& watcher) {
  if (ahead_) return next_stale_batch(state, watcher);
  return sampler_.sample(state.rl.prompts, policy_.model, static_cast<uint64_t>(state.updates),
                         {watcher.meters->sampling});
}

/// Step n (from 0) learns from what the policy sampled that step n - staleness began with, or the first one. It was
/// asked for so many steps ago; now the batch that is so many steps ahead is, with the policy of now.
RolloutBatch Trainer::next_stale_batch(const TrainState& state, const StepWatcher& watcher) {
  const int64_t staleness = config_.rollout.staleness;
  if (past_.empty()) remember_policy(state);
  if (ahead_->count() == 0) {  // the run begins, or goes on
    ahead_->seek(state.rl.prompts);
    next_asked_ = state.rl.steps;
  }
  ask_for_batches(state, state.rl.steps + staleness - 1, watcher);
  RolloutBatch batch = ahead_->take();
  std::erase_if(past_, [&](const PastPolicy& past) { return past.step <= state.rl.steps - staleness; });
  if (past_.empty() || past_.back().step < state.rl.steps) remember_policy(state);
  ask_for_batches(state, state.rl.steps + staleness, watcher);
  return batch;
}

/// Those of the steps up to `last`, as long as the run has so many.
void Trainer::ask_for_batches(const TrainState& state, int64_t last, const StepWatcher& watcher) {
  last = std::min(last, std::max(config_.train.steps - 1, state.rl.steps));
  for (; next_asked_ <= last; ++next_asked_) {
    const int64_t began_with = std::max<int64_t>(next_asked_ - config_.rollout.staleness, 0);
    const PastPolicy& policy = past_.at(static_cast<size_t>(began_with - past_.front().step));
    ahead_->ask_for(policy.weights, static_cast<uint64_t>(policy.updates), watcher.meters);
  }
}

void Trainer::remember_policy(const TrainState& state) { past_.push_back({state.rl.steps, state.updates, snapshot()}); }

CausalLm Trainer::snapshot() const {
  const bool sampled_from_masters = !policy_.model.adapter().empty() || config_.rollout.weights != "exact";
  return policy_.model.snapshot(sampled_from_masters);
}

void Trainer::note(const RolloutBatch& batch, const TrainState& state, StepNumbers& numbers,
                   StepWatcher& watcher) const {
  numbers.passed_over = batch.passed_over;
  numbers.prompt_limit = problems_.prompt_limit();
  numbers.scores = batch.scores;
  numbers.sampling_weights = config_.rollout.weights;
  numbers.logit_noise = config_.rollout.logit_noise;
  numbers.rollouts = batch.numbers;
  if (config_.rollout.dynamic_sampling) numbers.groups = batch.groups;
  if (ahead_) numbers.staleness = state.updates - static_cast<int64_t>(batch.policy_version);
  numbers.sampled_tokens = static_cast<double>(batch.tokens);
  numbers.reward_seconds = batch.reward_seconds;
  numbers.rollout_seconds = batch.rollout_seconds;
  watcher.passed_over(batch.passed_over);
  for (const std::string& warning : batch.warnings) watcher.warning(warning);
  watcher.scored(batch.scores, batch.completions);
}

/// Adds what only the trainer knows.
Experience Trainer::experience_of(RolloutBatch batch, const StepWatcher& watcher) const {
  Experience experience{.prompts = std::move(batch.prompts), .rollouts = std::move(batch.rollouts)};
  experience.position = batch.position;
  experience.places = leave_out_unjudged(experience.rollouts);
  experience.places.resize(static_cast<size_t>(config_.rollouts_per_step()));  // of groups that there are not, nowhere
  const Requirements needs = objective_.requirements();
  if (needs.hidden_states) experience.behavior_head = batch.weights.head().detach().clone();
  Stage stage(watcher.meters->training, "log-probabilities", static_cast<int64_t>(experience.rollouts.size()));
  annotate(experience.rollouts, policy_.model, batch.weights, reference(), critic(), needs, config_.rollout.temperature,
           config_.train.tokens_per_batch);
  return experience;
}

/// What the tokens are worth, after what the KL to the reference takes off their rewards.
void Trainer::find_worth(Experience& experience, const Objective& objective, StepNumbers& numbers) const {
  const std::optional<RewardPenalty> penalty = reward_penalty(objective.reward_kl, experience.rollouts);
  experience.worth =
      token_worth(objective.method.advantage, experience.rollouts, config_.critic,
                  penalty ? penalty->tokens : std::vector<std::vector<double>>{}, objective.advantage_eps);
  if (penalty) numbers.reward_kl = {.kl = penalty->kl, .coefficient = penalty->coefficient};
}

void Trainer::learn_from(const Experience& experience, const Objective& objective, TrainState& state,
                         StepNumbers& numbers, StepWatcher& watcher) {
  const ScoredRollouts scored = experience.scored();
  const int64_t tokens_per_batch = config_.train.tokens_per_batch;
  TokenMetrics tokens;
  BlockedTokens blocked;
  int64_t trained_tokens = 0;
  GradientNorms norms;
  Stage stage(watcher.meters->training, "update",
              config_.train.epochs * static_cast<int64_t>(experience.rollouts.size()));
  int64_t done = 0, seen_tokens = 0, updates = 0;
  bool equal_parameters = true;  // until the first update, |pi - mu| is the mismatch between sampler and trainer
  for (int64_t epoch = 0; epoch < config_.train.epochs; ++epoch) {
    for (const std::vector<int64_t>& planned : minibatches(state, epoch)) {
      const std::vector<int64_t> minibatch = places_now(planned, experience.places);
      if (minibatch.empty()) continue;  // nobody could judge any of it, or all of it was cut off
      for (const int64_t place : minibatch) trained_tokens += token_count({&experience.rollouts[place], 1});
      const auto observe = [&](const DecidedTokens& t) {
        tokens.add(t.stats, t.policy, t.decision, equal_parameters, t.reference_kl);
        blocked.add(t, policy_.model.config().vocab_size);
        watcher.decided(t, minibatch);
        stage.set(done, seen_tokens += t.policy.logp.size(0));
      };
      accumulate_policy_gradients(
          training_model(state), objective, config_.rollout.temperature, tokens_per_batch, scored, minibatch, observe,
          critic_ ? critic_->shared_loss(scored, minibatch) : HiddenLoss{}, optimizer_.loss_scale().value_or(1));
      if (critic_) critic_->accumulate_gradients(scored, minibatch, tokens_per_batch);
      watcher.before_update(minibatch);
      update(state, updates++, numbers, norms, watcher);
      equal_parameters = equal_parameters && !policy_learns(state);
      stage.set(done += static_cast<int64_t>(minibatch.size()), seen_tokens);
    }
  }
  numbers.tokens = tokens.numbers();
  numbers.blocked = blocked.most(policy_.tokenizer);
  numbers.gradients = norms.numbers();
  numbers.loss_scale = optimizer_.loss_scale();
  if (critic_) numbers.critic = critic_->take_numbers();
  numbers.skipped_updates = state.skipped;
  numbers.trained_tokens = static_cast<double>(trained_tokens);
}

/// As the next update's passes have it. The warm-up's updates count, so that no two have the same noise.
CausalLm Trainer::training_model(const TrainState& state) const {
  return policy_.model.with_dropout(config_.lora.dropout, config_.run.seed,
                                    static_cast<uint64_t>(state.sft.steps + state.rl.updates));
}

/// Of the policy and the critic, with what was accumulated; `number` counts those of the step, from 0. While the critic
/// warms up, the policy's gradients serve the metrics alone.
void Trainer::update(TrainState& state, int64_t number, StepNumbers& numbers, GradientNorms& norms,
                     StepWatcher& watcher) {
  bool sound = true, excused = true;
  const auto judge = [&](const Optimizer::Outcome& outcome) {
    sound = sound && !outcome.skipped;
    excused = excused && (!outcome.skipped || outcome.overflowed);
  };
  const auto of_step = static_cast<double>(config_.updates_per_step());
  if (policy_learns(state)) {
    numbers.lr = config_.optimizer.lr_at(config_.planned_updates(state.rl.steps) + static_cast<double>(number),
                                         config_.planned_updates(config_.train.steps), of_step);
    ++state.rl.updates;
    const Optimizer::Outcome outcome = optimizer_.step(*numbers.lr);
    norms.add(outcome);
    state.updates += outcome.skipped ? 0 : 1;
    judge(outcome);
  } else {
    optimizer_.clear_gradients();
  }
  if (critic_)
    judge(critic_->update(config_.planned_critic_updates(state.rl.steps) + static_cast<double>(number),
                          config_.planned_critic_updates(config_.train.steps), of_step));
  const bool overflowed = !sound && excused;
  state.count_update(sound, overflowed);
  if (!sound) watcher.skipped_update(overflowed);
}

/// Measures what the step's updates did, with the weights after the last of them.
void Trainer::certify(const Experience& experience, const TrainState& state, StepNumbers& numbers) const {
  const int64_t every = config_.record.certificate_every;
  if (every == 0 || state.rl.steps % every != 0 || experience.rollouts.empty()) return;
  Stopwatch watch(policy_.model.device());
  numbers.certificate = certificate_of(policy_.model, experience.scored(), objective_.requirements(),
                                       {.temperature = config_.rollout.temperature,
                                        .tokens_per_batch = config_.train.tokens_per_batch,
                                        .range = problems_.reward_range(),
                                        .horizon = longest_completion(config_)});
  numbers.certificate_seconds = watch.lap();
}

/// Sets what adapts for the next step: the coefficient of a KL in the rewards, and the region's thresholds.
void Trainer::adapt(const Objective& objective, const Experience& experience, RlState& state,
                    StepNumbers& numbers) const {
  const RewardKl& kl = objective.reward_kl;
  if (kl.target && numbers.reward_kl)
    state.kl_coefficient = next_coefficient(kl, numbers.reward_kl->kl, std::ssize(experience.rollouts));
  if (!objective.adapt_target_kept) return;
  numbers.thresholds = thresholds_of(objective.method.region);
  if (!numbers.tokens) return;  // no rollout has a reward
  state.thresholds = adapted(objective, thresholds_of(objective_.method.region), 1 - numbers.tokens->outside);
}

std::vector<std::vector<int64_t>> Trainer::minibatches(const TrainState& state, int64_t epoch) const {
  const auto pass = static_cast<uint64_t>(state.rl.steps * config_.train.epochs + epoch);
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

Agreement Trainer::agreement(const TrainState& state) const {
  constexpr int64_t kPrompts = 4;
  PromptStream stream = problems_.training();
  stream.seek(state.rl.prompts);
  // With exact weights and without noise, whatever the run samples with: that those differ is their purpose.
  SamplingRequest request = sampling_request();
  request.logit_noise = 0;
  return sampler_trainer_agreement(policy_.model, policy_.model, policy_.tokenizer, stream.next(kPrompts), request,
                                   config_.train.tokens_per_batch);
}

Objective objective_at(const Config& config, const RlState& state) {
  Objective objective =
      make_objective(config.objective, static_cast<double>(longest_completion(config)), config.reference);
  if (objective.adapt_target_kept && state.thresholds) set_thresholds(objective, *state.thresholds);
  if (objective.reward_kl.target && state.kl_coefficient) objective.reward_kl.coefficient = *state.kl_coefficient;
  return objective;
}

Trainer::Trainer(const Config& config, const LoadedModel& policy, const Problems& problems, Companions saved)
    : config_(config),
      policy_(policy),
      problems_(problems),
      objective_(objective_at(config, {})),
      reference_(std::move(saved.reference)),
      optimizer_(policy.model.trainable(), config.optimizer),
      sampler_(config, policy, problems, sampling_request()) {
  if (config.rollout.staleness > 0)
    ahead_ = std::make_unique<SamplingAhead>(sampler_, policy.model.device(), config.run.threads);
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
  for (const PastPolicy& past : past_) {
    const std::string place = kPast + std::to_string(past.step) + ".";
    state.push_back({place + kUpdates, at::full({1}, past.updates, at::kLong)});
    for (const NamedTensor& weight : masters_of(past.weights.trainable()))
      state.push_back({place + weight.name, weight.value});
  }
  return state;
}

void Trainer::load_optimizer(const std::vector<NamedTensor>& state, const TrainState& at, const std::string& place) {
  optimizer_.load(state, place);
  if (critic_) critic_->load(state, place);
  load_past_policies(state, at, place);
}

void Trainer::load_past_policies(const std::vector<NamedTensor>& state, const TrainState& at,
                                 const std::string& place) {
  const at::NoGradGuard no_grad;
  const PastTensors saved = past_tensors(state, place);
  require_past_steps(saved, at.rl.steps, config_.rollout.staleness, place);
  for (const auto& [step, tensors] : saved) {
    PastPolicy past{step, past_updates(tensors, at.updates, step, place), snapshot()};
    const std::vector<NamedParameter> weights = past.weights.trainable();
    for (const NamedParameter& weight : weights) {
      const Tensor& master = weight.value.master;
      const auto found = tensors.find(weight.name);
      if (found == tensors.end() || found->second.sizes() != master.sizes() ||
          found->second.scalar_type() != master.scalar_type())
        refuse_past(place, "tensor \"", kPast, step, ".", weight.name, "\" is missing or has another shape or type");
      master.copy_(found->second);
      weight.value.compute.copy_(master);
    }
    if (tensors.size() != weights.size() + 1)
      refuse_past(place, "\"", kPast, step, "\" has tensors of no weight of the model");
    past_.push_back(std::move(past));
  }
}

}  // namespace keel
