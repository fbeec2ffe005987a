#include "keel/train/trainer.h"

#include <ATen/ATen.h>

#include "keel/core/interrupt.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/model/network/finite_weights.h"
#include "keel/reward/scoring_queue.h"
#include "keel/rollout/sampling_weights.h"
#include "keel/train/metrics/sample_notes.h"
#include "keel/train/metrics/token_metrics.h"
#include "keel/train/start/agreement.h"
#include "keel/train/update/annotate.h"
#include "keel/train/update/minibatches.h"
#include "keel/train/update/policy_update.h"
#include "keel/train/update/token_advantages.h"
#include "keel/train/update/unjudged.h"
#include "keel/train/update/update_certificate.h"

namespace keel {
namespace {

/// The rewards of those that were judged.
std::vector<double> rewards_of(std::span<const Rollout> rollouts) {
  std::vector<double> rewards;
  for (const Rollout& rollout : rollouts)
    if (rollout.judged) rewards.push_back(rollout.reward);
  return rewards;
}

void write_reward_metrics(std::span<const Rollout> rollouts, int64_t group, Json& row) {
  const std::vector<double> rewards = rewards_of(rollouts);
  const double count = static_cast<double>(rewards.size());
  double sum = 0, squares = 0, flat_groups = 0;
  for (const double reward : rewards) sum += reward;
  for (const double reward : rewards) squares += (reward - sum / count) * (reward - sum / count);
  for (size_t begin = 0; begin < rollouts.size(); begin += group) {
    const std::vector<double> mine = rewards_of(rollouts.subspan(begin, group));
    flat_groups += std::adjacent_find(mine.begin(), mine.end(), std::not_equal_to<>()) == mine.end();
  }
  if (!rewards.empty()) row["reward/mean"] = sum / count;
  if (!rewards.empty()) row["reward/std"] = std::sqrt(squares / std::max(count - 1, 1.0));
  row["reward/zero_std_groups"] = flat_groups / (static_cast<double>(rollouts.size()) / static_cast<double>(group));
}

/// What the rollouts alone say: rewards, lengths.
void write_rollout_metrics(std::span<const Rollout> rollouts, int64_t group, Json& row) {
  const double count = static_cast<double>(rollouts.size());
  double length = 0, longest = 0, truncated = 0;
  for (const Rollout& rollout : rollouts) {
    length += static_cast<double>(rollout.tokens.size());
    longest = std::max(longest, static_cast<double>(rollout.tokens.size()));
    truncated += rollout.finish == Finish::kLength ? 1 : 0;
  }
  write_reward_metrics(rollouts, group, row);
  row["completion/length_mean"] = length / count;
  row["completion/length_max"] = longest;
  row["completion/truncated"] = truncated / count;
}

/// In place of the range of rewards, where their functions name none: that of the step's.
RewardRange range_of_rewards(std::span<const Rollout> rollouts) {
  RewardRange range{.lowest = rollouts[0].reward, .highest = rollouts[0].reward};
  for (const Rollout& rollout : rollouts) {
    range.lowest = std::min(range.lowest, rollout.reward);
    range.highest = std::max(range.highest, rollout.reward);
  }
  return range;
}

/// Each function's mean, where there are several, and what could not be judged.
void write_score_metrics(const ScoreReport& report, Json& row) {
  if (report.functions.size() > 1)
    for (const ScoreReport::Function& function : report.functions)
      if (function.count > 0)
        row["reward/function/" + function.name] = function.sum / static_cast<double>(function.count);
  if (report.unscored > 0) row["reward/unscored"] = report.unscored;
  if (!report.failures.empty()) row["reward/failures"] = report.failures.size();
}

int64_t token_count(std::span<const Rollout> rollouts) {
  int64_t tokens = 0;
  for (const Rollout& rollout : rollouts) tokens += static_cast<int64_t>(rollout.tokens.size());
  return tokens;
}

}  // namespace

Json Trainer::step() {
  Stopwatch watch(device_);
  Json row;
  const std::vector<Prompt> prompts = next_prompts(row);
  std::vector<Rollout> rollouts = sample_and_score(prompts, row);
  const Tensor behavior_head =
      objective_.requirements().hidden_states ? policy_.model.head().detach().clone() : Tensor();
  const double rollout_seconds = watch.lap() - row["time/reward"].get<double>();
  const double sampled_tokens = static_cast<double>(token_count(rollouts));
  write_rollout_metrics(rollouts, config_.rollout.samples_per_prompt, row);
  const std::vector<std::optional<int64_t>> place_now = leave_out_unjudged(rollouts);
  annotate(rollouts, prompts, policy_.model, reference_ ? &*reference_ : nullptr,
           critic_ ? &critic_->critic() : nullptr, objective_.requirements(), config_.rollout.temperature,
           config_.train.tokens_per_batch);
  const TokenWorth worth = token_worth(objective_.method.advantage, rollouts, config_.critic);
  write_value_metrics(rollouts, worth, row);

  const ScoredRollouts scored{prompts, rollouts, worth.advantages, behavior_head, worth.returns};
  const bool policy_learns = state_.rl_steps >= config_.critic.warmup_steps;
  TokenMetrics token_metrics;
  GradientNorms norms;
  SampleNotes notes(worth.advantages, config_.record.samples_per_step);
  bool equal_parameters = true;  // until the first update, |pi - mu| is the mismatch between sampler and trainer
  for (int64_t epoch = 0; epoch < config_.train.epochs; ++epoch) {
    for (const std::vector<int64_t>& planned : minibatches(epoch)) {
      const std::vector<int64_t> minibatch = places_now(planned, place_now);
      if (minibatch.empty()) continue;  // nobody could judge any of it
      const auto observe = [&](const DecidedTokens& t) {
        token_metrics.add(t.stats, t.policy, t.decision, equal_parameters, t.reference_kl);
        notes.add(t.batch, minibatch, t.begin, t.policy, t.decision);
      };
      accumulate_policy_gradients(policy_.model, objective_, config_.rollout.temperature,
                                  config_.train.tokens_per_batch, scored, minibatch, observe,
                                  critic_ ? critic_->shared_loss(scored, minibatch) : HiddenLoss{});
      if (critic_) critic_->accumulate_gradients(scored, minibatch, config_.train.tokens_per_batch);
      update_policy_and_critic(policy_learns, norms, row);
      equal_parameters = equal_parameters && !policy_learns;
    }
  }
  token_metrics.write(row);
  norms.write("optimizer", row);
  if (critic_) critic_->write_metrics(row);
  const double train_seconds = watch.lap();
  add_certificate(scored, row);
  adapt_thresholds(row);

  state_.prompts = problems_.training().position();
  state_.rl_steps++;
  state_.step++;
  for (const Json& sample : notes.rows(state_.step, prompts, rollouts, worth.advantages, policy_.tokenizer))
    folder_.add_sample(sample);
  const double tokens = static_cast<double>(token_count(rollouts));
  row["skipped_steps"] = state_.skipped;
  row["time/rollout"] = rollout_seconds;
  row["time/train"] = train_seconds;
  row["throughput/rollout_tokens_per_s"] = sampled_tokens / rollout_seconds;
  row["throughput/train_tokens_per_s"] = tokens * static_cast<double>(config_.train.epochs) / train_seconds;
  return row;
}

/// Rows that are passed over on the way to the next prompts are counted, and the first of them is told.
std::vector<Prompt> Trainer::next_prompts(Json& row) {
  PromptStream& stream = problems_.training();
  const SkippedCounts before = stream.skipped();
  std::vector<Prompt> prompts = stream.next(config_.train.prompts_per_step);
  const SkippedCounts& after = stream.skipped();
  passed_over_.bad += after.bad - before.bad;
  passed_over_.too_long += after.too_long - before.too_long;
  if (after.bad > before.bad) row["data/bad_rows"] = after.bad - before.bad;
  if (after.too_long > before.too_long) {
    row["data/too_long"] = after.too_long - before.too_long;
    row["data/max_prompt_tokens"] = problems_.prompt_limit();
  }
  if (!after.first.empty() && !std::exchange(told_of_skipped_, true)) {
    console_.warning("passed over " + after.first);
    folder_.log("passed over " + after.first);
  }
  return prompts;
}

SamplingRequest Trainer::sampling_request() const {
  return {.samples_per_prompt = config_.rollout.samples_per_prompt,
          .temperature = config_.rollout.temperature,
          .max_new_tokens = longest_completion(config_),
          .stop_ids = policy_.stop_ids,
          .seed = config_.run.seed,
          .top_k = objective_.requirements().top_k,
          .hidden_states = objective_.requirements().hidden_states};
}

/// Rewards are computed beside generation: a group is judged while others are still being sampled.
std::vector<Rollout> Trainer::sample_and_score(const std::vector<Prompt>& prompts, Json& row) {
  SamplingRequest request = sampling_request();
  request.policy_version = static_cast<uint64_t>(state_.updates);
  request.max_sequences = config_.rollout.max_sequences;
  ScoringQueue queue(problems_.reward(), prompts, policy_.tokenizer, config_.reward.worker_count());
  std::vector<Rollout> rollouts =
      RolloutEngine(sampling_weights(policy_.model, config_.rollout.weights), policy_.tokenizer)
          .generate(prompts, request, [&](std::span<Rollout> group) { queue.add(group); });
  Stopwatch watch(device_);
  const ScoreReport report = queue.finish(rollouts);
  row["time/reward"] = watch.lap();
  write_score_metrics(report, row);
  note_scores(report, rollouts.size());
  return rollouts;
}

/// Where failures do not stop the run, the log has them all, and the first is told.
void Trainer::note_scores(const ScoreReport& report, size_t completions) {
  for (const std::string& failure : report.failures)
    folder_.log("step " + std::to_string(state_.step + 1) + ": " + failure);
  if (const std::optional<std::string> first = tally_.add(report, completions))
    console_.warning(*first + " (reward.on_error is " + config_.reward.on_error + "; further ones are in log.txt)");
}

std::vector<std::vector<int64_t>> Trainer::minibatches(int64_t epoch) const {
  const auto pass = static_cast<uint64_t>(state_.rl_steps * config_.train.epochs + epoch);
  return keel::minibatches(config_.rollouts_per_step(), config_.sequences_per_update(),
                           config_.rollouts_kept_together(), Draws(config_.run.seed, Stream::kShuffle, pass));
}

/// Measures what the step's updates did, with the weights after the last of them.
void Trainer::add_certificate(const ScoredRollouts& scored, Json& row) const {
  const int64_t every = config_.record.certificate_every;
  if (every == 0 || state_.rl_steps % every != 0 || scored.rollouts.empty()) return;
  Stopwatch watch(device_);
  const CertificateTerms terms{.temperature = config_.rollout.temperature,
                               .tokens_per_batch = config_.train.tokens_per_batch,
                               .range = problems_.reward_range().value_or(range_of_rewards(scored.rollouts)),
                               .horizon = longest_completion(config_)};
  if (const auto certificate = certificate_of(policy_.model, scored, objective_.requirements(), terms))
    write_certificate(*certificate, row);
  row["time/certificate"] = watch.lap();
}

/// Says which thresholds the step had, and moves them for the next.
void Trainer::adapt_thresholds(Json& row) {
  if (!objective_.adapt_target_kept) return;
  const Thresholds now = thresholds_of(objective_.method.region);
  row["trust_region/delta_low"] = now.low;
  row["trust_region/delta_high"] = now.high;
  if (!row.contains("trust_region/outside")) return;  // no token was judged
  const Thresholds next = adapted(objective_, first_thresholds_, 1 - row["trust_region/outside"].get<double>());
  set_thresholds(objective_, next);
  state_.delta_low = next.low;
  state_.delta_high = next.high;
}

void Trainer::apply_update(double lr, Json& row) {
  GradientNorms norms;
  count_update(update_policy(lr, norms, row));
  norms.write("optimizer", row);
}

/// False when the gradient was not finite and the update was skipped.
bool Trainer::update_policy(double lr, GradientNorms& norms, Json& row) {
  const Optimizer::Outcome outcome = optimizer_->step(lr);
  norms.add(outcome);
  row["optimizer/lr"] = lr;
  state_.updates += outcome.skipped ? 0 : 1;
  return !outcome.skipped;
}

/// While the critic warms up, the policy's gradients serve the metrics alone.
void Trainer::update_policy_and_critic(bool policy_learns, GradientNorms& norms, Json& row) {
  bool sound = true;
  if (policy_learns)
    sound = update_policy(config_.optimizer.lr_at(state_.rl_updates++), norms, row);
  else
    optimizer_->clear_gradients();
  if (critic_) sound = !critic_->update(state_.critic_updates++, row).skipped && sound;
  count_update(sound);
}

void Trainer::count_update(bool sound) {
  if (sound) {
    state_.skipped_in_a_row = 0;
    return;
  }
  if (state_.updates == 0) require_finite(policy_.model);  // no update is to blame: it came so
  state_.skipped++;
  folder_.log("step " + std::to_string(state_.step + 1) +
              ": an update was skipped, its gradient norm is not finite; prompts " + std::to_string(state_.prompts) +
              " to " + std::to_string(problems_.training().position()));
  if (++state_.skipped_in_a_row > config_.train.max_skipped_updates)
    fail(ExitCode::kHealthGuard, state_.skipped_in_a_row,
         " updates in a row had a gradient norm that is not finite (step ", state_.step + 1,
         "). Checkpoints are saved only with finite weights. Lower ", lr_option(),
         " in a new run (model.path may be a checkpoint), or look at log.txt for the prompts");
}

ExitCode Trainer::run() {
  try {
    return run_to_the_end();
  } catch (const FolderLost& loss) {
    end_without_folder(loss);
  }
}

ExitCode Trainer::run_to_the_end() {
  try {
    return run_phases();
  } catch (const Interrupted&) {  // in a step that had learned nothing yet: the run is where the step before left it
    saved_for_interrupt();
    return ExitCode::kInterrupted;
  }
}

ExitCode Trainer::run_phases() {
  if (saved_for_interrupt()) return ExitCode::kInterrupted;
  while (state_.phase == Phase::kSft) {
    Stopwatch watch(device_);
    Json row = sft_step();
    record_step(std::move(row), "sft", watch.lap());
    finish_sft_step();
    look_after_folder();
    if (saved_for_interrupt()) return ExitCode::kInterrupted;
    if (state_.phase != Phase::kSft || (config_.checkpoint.every > 0 && state_.step % config_.checkpoint.every == 0))
      save();
  }
  if (state_.phase == Phase::kRl) {
    self_test();
    while (true) {
      evaluate_if_due();
      look_after_folder();
      if (saved_for_interrupt()) return ExitCode::kInterrupted;
      if (state_.rl_steps >= config_.train.steps) break;
      Stopwatch watch(device_);
      Json row = step();
      record_step(std::move(row), "rl", watch.lap());
      const bool last = state_.rl_steps >= config_.train.steps;
      if (!last && config_.checkpoint.every > 0 && state_.step % config_.checkpoint.every == 0) save();
    }
    state_.phase = Phase::kDone;
    save();
  }
  if (const auto damage = find_damage(last_checkpoint_))
    fail(ExitCode::kHealthGuard, last_checkpoint_.string(), ": the last checkpoint does not verify: ", *damage);
  console_.end_progress();
  tell_at_the_end();
  return ExitCode::kDone;
}

}  // namespace keel
