#include "keel/train/trainer.h"

#include <ATen/ATen.h>

#include "keel/core/tensor/device.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/objective/adaptive_thresholds.h"
#include "keel/train/start/starting_model.h"
#include "keel/train/update/annotate.h"
#include "keel/train/update/minibatches.h"
#include "keel/train/update/token_advantages.h"

namespace keel {

StepResult Trainer::step(TrainState& state, StepWatcher& watcher) {
  StepMetrics metrics;
  const Objective objective = current_objective(config_, state.rl);
  RolloutBatch batch = sample_and_score(state, metrics, watcher);
  Stopwatch watch(policy_.model.device());
  Experience experience = annotate(std::move(batch), metrics, watcher);
  compute_advantages(experience, objective, metrics);
  update_policy(experience, objective, state, metrics, watcher);
  metrics.train_seconds = watch.lap();
  finish_step(experience, objective, state, metrics);
  return {std::move(experience), std::move(metrics)};
}

/// Samples the step's rollouts and scores each group while others are still being sampled. With rollout.staleness the
/// batch was requested in an earlier step.
RolloutBatch Trainer::sample_and_score(const TrainState& state, StepMetrics& metrics, StepWatcher& watcher) {
  const bool stale = config_.rollout.staleness > 0;
  Stopwatch watch(policy_.model.device());
  const SamplerWeights weights = sampler_weights();
  RolloutBatch batch = stale ? past_policies_.next_batch(state, weights, watcher.meters)
                             : sampler_.sample(state.rl.prompt_position, weights, static_cast<uint64_t>(state.updates),
                                               {watcher.meters->sampling});
  if (stale) metrics.wait_seconds = watch.lap();
  record_rollout_metrics(batch, state, metrics, watcher);
  return batch;
}

void Trainer::record_rollout_metrics(const RolloutBatch& batch, const TrainState& state, StepMetrics& metrics,
                                     StepWatcher& watcher) const {
  metrics.skipped_rows = batch.skipped_rows;
  metrics.prompt_limit = prompt_sources_.prompt_limit();
  metrics.scores = batch.scores;
  metrics.sampling_precision = config_.rollout.weights;
  metrics.logit_noise = config_.rollout.logit_noise;
  metrics.rollouts = batch.metrics;
  if (config_.rollout.dynamic_sampling) metrics.groups = batch.groups;
  if (config_.rollout.staleness > 0)
    metrics.staleness_updates = state.updates - static_cast<int64_t>(batch.policy_version);
  metrics.sampled_tokens = static_cast<double>(batch.tokens);
  metrics.reward_seconds = batch.reward_seconds;
  metrics.rollout_seconds = batch.rollout_seconds;
  watcher.on_skipped_rows(batch.skipped_rows);
  for (const std::string& warning : batch.warnings) watcher.on_warning(warning);
  watcher.on_scored(batch.scores, batch.completions);
}

/// Drops unscored rollouts, and adds the log-probs and values that the method needs and the sampler does not record.
Experience Trainer::annotate(RolloutBatch batch, StepMetrics& metrics, const StepWatcher& watcher) const {
  Experience experience{.prompts = std::move(batch.prompts), .rollouts = std::move(batch.rollouts)};
  experience.position = batch.position;
  experience.trained_index = remove_unscored(experience.rollouts);
  // Dynamic sampling may find fewer groups: the rest is std::nullopt and is not trained.
  experience.trained_index.resize(static_cast<size_t>(config_.rollouts_per_step()));
  if (config_.train.mask_truncated)
    metrics.masked = mask_truncated_rollouts(experience.rollouts, experience.trained_index);
  const Requirements needs = configured_objective_.requirements();
  const ModelWeights& sampler_model = batch.weights.weights;
  if (needs.hidden_states) experience.behavior_head = sampler_model.head().value().clone();
  Stage stage(watcher.meters->training, "log-probabilities", static_cast<int64_t>(experience.rollouts.size()));
  const CausalLm sampled_by(sampler_model, network_.execution());
  const double temperature = config_.rollout.temperature;
  const int64_t tokens_per_batch = config_.train.tokens_per_batch;
  keel::annotate(experience.rollouts, network_, sampled_by, reference(), critic_ ? &critic_->critic() : nullptr, needs,
                 temperature, tokens_per_batch);
  if (config_.rollout.staleness > 0 && !experience.rollouts.empty())
    metrics.drift = measure_drift(experience.rollouts, network_, sampled_by, temperature, tokens_per_batch);
  return experience;
}

/// Computes advantages from rewards minus the reference-KL penalty.
void Trainer::compute_advantages(Experience& experience, const Objective& objective, StepMetrics& metrics) const {
  const std::optional<RewardPenalty> penalty = reward_penalty(objective.reward_kl, experience.rollouts);
  experience.token_advantages =
      keel::compute_advantages(objective.method.advantage, experience.rollouts, config_.critic,
                               penalty ? penalty->tokens : std::vector<std::vector<double>>{}, objective.advantage_eps);
  if (penalty) metrics.reward_kl = {.kl = penalty->kl, .coefficient = penalty->coefficient};
  metrics.values = compute_value_metrics(experience.rollouts, experience.token_advantages);
}

void Trainer::update_policy(const Experience& experience, const Objective& objective, TrainState& state,
                            StepMetrics& metrics, StepWatcher& watcher) {
  watcher.on_experience(experience);
  const ScoredRollouts scored = experience.scored();
  const int64_t tokens_per_batch = config_.train.tokens_per_batch;
  TokenMetricSums tokens;
  BlockedTokens blocked;
  GradientNorms norms;
  Stage stage(watcher.meters->training, "update",
              config_.train.epochs * static_cast<int64_t>(experience.rollouts.size()));
  int64_t rollouts_done = 0, tokens_done = 0, update_index = 0, trained_tokens = 0;
  bool before_first_update = true;  // of the policy: |pi - mu| is then the mismatch of sampler and trainer
  for (const std::vector<int64_t>& minibatch : minibatches(experience, state.rl)) {
    for (const int64_t i : minibatch) trained_tokens += token_count({&experience.rollouts[i], 1});
    const auto observe = [&](const TokenUpdate& update) {
      tokens.add(update.stats, update.loss_inputs, update.decision, before_first_update, update.reference_kl);
      blocked.add(update, policy_.model.config().vocab_size);
      watcher.on_tokens(update, minibatch);
      tokens_done += update.loss_inputs.logp.size(0);
      stage.set(rollouts_done, tokens_done);
    };
    const UpdateOptions options{.temperature = config_.rollout.temperature,
                                .dropout = next_dropout(config_, state),
                                .loss_scale = optimizer_.loss_scale().value_or(1),
                                .aux_loss = critic_ ? critic_->shared_loss(scored, minibatch) : AuxLoss{}};
    accumulate_policy_gradients(network_, objective, options, tokens_per_batch, scored, minibatch, observe);
    if (critic_) critic_->accumulate_gradients(scored, minibatch, tokens_per_batch);
    tokens.end_update();
    watcher.on_gradients(minibatch);
    step_optimizers(state, update_index++, metrics, norms, watcher);
    before_first_update = before_first_update && !updates_policy(state.rl);
    rollouts_done += static_cast<int64_t>(minibatch.size());
    stage.set(rollouts_done, tokens_done);
  }
  metrics.tokens = tokens.read();
  if (metrics.drift && metrics.tokens) {
    metrics.tokens->mismatch_mean = metrics.drift->mismatch_mean;
    metrics.tokens->mismatch_max = metrics.drift->mismatch_max;
  }
  metrics.blocked = blocked.top(policy_.tokenizer);
  metrics.gradients = norms.metrics();
  metrics.loss_scale = optimizer_.loss_scale();
  if (critic_) metrics.critic = critic_->take_metrics();
  metrics.skipped_updates = state.skipped;
  metrics.trained_tokens = static_cast<double>(trained_tokens);
}

/// Updates policy and critic with the accumulated gradients; `index` counts the updates of the step, from 0. During
/// critic.warmup_steps only the critic is updated, and the policy's gradients are computed only for the metrics.
void Trainer::step_optimizers(TrainState& state, int64_t index, StepMetrics& metrics, GradientNorms& norms,
                              StepWatcher& watcher) {
  bool skipped = false, only_overflows = true;
  const auto count = [&](const Optimizer::Outcome& outcome) {
    skipped = skipped || outcome.skipped;
    only_overflows = only_overflows && (!outcome.skipped || outcome.overflowed);
  };
  const auto updates_per_step = static_cast<double>(config_.updates_per_step());
  if (updates_policy(state.rl)) {
    metrics.lr = config_.optimizer.lr_at(config_.planned_updates(state.rl.steps) + static_cast<double>(index),
                                         config_.planned_updates(config_.train.steps), updates_per_step);
    ++state.rl.updates;
    const Optimizer::Outcome outcome = optimizer_.step(*metrics.lr);
    norms.add(outcome);
    state.updates += outcome.skipped ? 0 : 1;
    count(outcome);
  } else {
    optimizer_.clear_gradients();
  }
  if (critic_)
    count(critic_->update(config_.planned_critic_updates(state.rl.steps) + static_cast<double>(index),
                          config_.planned_critic_updates(config_.train.steps), updates_per_step));
  const bool overflowed = skipped && only_overflows;
  state.count_update(skipped, overflowed);
  if (skipped) watcher.on_skipped_update(overflowed);
}

/// Computes the certificate and the adaptive coefficients, and advances the state to the next step.
void Trainer::finish_step(const Experience& experience, const Objective& objective, TrainState& state,
                          StepMetrics& metrics) const {
  certify(experience, state.rl, metrics);
  adapt(objective, experience, state.rl, metrics);
  state.rl.prompt_position = experience.position;
  state.rl.steps++;
}

/// Computes the improvement certificate with the updated weights, if it is due.
void Trainer::certify(const Experience& experience, const RlState& state, StepMetrics& metrics) const {
  const int64_t every = config_.record.certificate_every;
  if (every == 0 || state.steps % every != 0 || experience.rollouts.empty()) return;
  Stopwatch watch(policy_.model.device());
  metrics.certificate = compute_certificate(network_, experience.scored(), configured_objective_.requirements(),
                                            {.temperature = config_.rollout.temperature,
                                             .tokens_per_batch = config_.train.tokens_per_batch,
                                             .range = prompt_sources_.reward_range(),
                                             .horizon = resolve_max_new_tokens(config_)});
  metrics.certificate_seconds = watch.lap();
}

/// Adapts the reward-KL coefficient and the trust-region thresholds for the next step.
void Trainer::adapt(const Objective& objective, const Experience& experience, RlState& state,
                    StepMetrics& metrics) const {
  const RewardKlPenalty& kl = objective.reward_kl;
  if (kl.target && metrics.reward_kl)
    state.kl_coefficient = next_kl_coefficient(kl, metrics.reward_kl->kl, std::ssize(experience.rollouts));
  if (!objective.target_kept) return;
  metrics.thresholds = get_thresholds(objective.method.region);
  if (!metrics.tokens) return;  // no rollout has a reward
  state.thresholds =
      adapt_thresholds(objective, get_thresholds(configured_objective_.method.region), metrics.tokens->inside_choices);
}

/// Returns the rollout indices of each update, over all epochs. Excludes rollouts without a reward, truncated ones with
/// train.mask_truncated, and updates without any rollout left.
std::vector<std::vector<int64_t>> Trainer::minibatches(const Experience& experience, const RlState& state) const {
  std::vector<std::vector<int64_t>> result;
  for (int64_t epoch = 0; epoch < config_.train.epochs; ++epoch) {
    const auto epoch_index = static_cast<uint64_t>(state.steps * config_.train.epochs + epoch);
    for (const std::vector<int64_t>& planned : keel::minibatches(
             config_.rollouts_per_step(), config_.sequences_per_update(), config_.rollouts_kept_together(),
             RandomSequence(config_.run.seed, Stream::kShuffle, epoch_index)))
      if (auto minibatch = remap_indices(planned, experience.trained_index); !minibatch.empty())
        result.push_back(std::move(minibatch));
  }
  return result;
}

namespace {

/// The memory for the sets of kept tokens of a batch: half of the machine's, shared by the batches in flight.
int64_t max_kept_bytes(const RolloutOptions& rollout) {
  if (rollout.filter.keeps_all()) return 0;
  return rollout.kept_bytes_limit > 0 ? rollout.kept_bytes_limit : machine_memory_bytes() / 2 / (rollout.staleness + 1);
}

}  // namespace

SamplingRequest Trainer::sampling_request() const {
  return {.samples_per_prompt = config_.rollout.samples_per_prompt,
          .temperature = config_.rollout.temperature,
          .logit_noise = config_.rollout.logit_noise,
          .filter = config_.rollout.filter,
          .max_new_tokens = resolve_max_new_tokens(config_),
          .stop_ids = policy_.stop_ids,
          .stop_strings = config_.rollout.stop_strings,
          .seed = config_.run.seed,
          .max_sequences = config_.rollout.max_sequences,
          .top_k = configured_objective_.requirements().top_k,
          .hidden_states = configured_objective_.requirements().hidden_states,
          .max_kept_bytes = max_kept_bytes(config_.rollout)};
}

LogprobCheck Trainer::check_logprobs(const TrainState& state) const {
  constexpr int64_t kPrompts = 4;
  PromptStream stream = prompt_sources_.training();
  stream.seek(state.rl.prompt_position);
  // Uses exact weights and no noise: rollout.weights and rollout.logit_noise differ from the trainer on purpose.
  SamplingRequest request = sampling_request();
  request.logit_noise = 0;
  return check_sampler_matches_trainer(sampler_weights(), network_, policy_.tokenizer, stream.next(kPrompts), request,
                                       config_.train.tokens_per_batch);
}

Objective current_objective(const Config& config, const RlState& state) {
  const auto max_completion_length = static_cast<double>(resolve_max_new_tokens(config));
  Objective objective = make_objective(config.objective, max_completion_length, config.reference);
  if (objective.target_kept && state.thresholds) set_thresholds(objective, *state.thresholds);
  if (objective.reward_kl.target && state.kl_coefficient) objective.reward_kl.coefficient = *state.kl_coefficient;
  return objective;
}

Trainer::Trainer(const Config& config, const LoadedModel& policy, const PromptSources& prompt_sources,
                 AuxiliaryWeights saved)
    : config_(config),
      policy_(policy),
      prompt_sources_(prompt_sources),
      configured_objective_(current_objective(config, {})),
      network_(policy.model, execution_options(config)),
      optimizer_(saved.masters.value_or(MasterWeights(policy.model.trainable())), config.optimizer),
      sampler_(config, policy, prompt_sources, sampling_request()),
      past_policies_(config, sampler_, policy.model.device()) {
  if (!saved.reference && configured_objective_.requirements().reference_logp)
    saved.reference = policy.model.frozen_copy();
  if (saved.reference) reference_.emplace(*saved.reference, network_.execution());
  if (!config.critic.enabled()) return;
  Critic critic = saved.critic ? *std::move(saved.critic)
                               : Critic::create(policy.model, masters(), config.critic.has_separate_body());
  const MasterWeights critic_masters = critic.match_compute_type(network_);
  critic_.emplace(std::move(critic), critic_masters, config.critic,
                  critic_optimizer_options(config.critic, config.optimizer));
}

SamplerWeights Trainer::sampler_weights() const { return {policy_.model, masters(), execution_options(config_)}; }

StepResult Trainer::step(TrainState& state) {
  StepWatcher no_watcher;
  return step(state, no_watcher);
}

std::vector<NamedTensor> Trainer::optimizer_state() const {
  std::vector<NamedTensor> state = optimizer_.state();
  if (critic_) std::ranges::move(critic_->state(), std::back_inserter(state));
  std::ranges::move(past_policies_.state(), std::back_inserter(state));
  return state;
}

void Trainer::load_optimizer(const std::vector<NamedTensor>& state, const TrainState& progress,
                             const std::string& path) {
  optimizer_.load(state, path);
  if (critic_) critic_->load(state, path);
  past_policies_.load(state, progress, sampler_weights(), path);
}

}  // namespace keel
