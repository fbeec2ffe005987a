#include "keel/train/batch_sampler.h"

#include <utility>

#include "keel/core/parallel.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/rollout/sampling_weights.h"

namespace keel {
namespace {

/// Copies the fields that rollout metrics use.
Rollout copy_for_metrics(const Rollout& rollout) {
  Rollout copy;
  copy.tokens.trained = rollout.tokens.trained;
  copy.finish = rollout.finish;
  copy.reward = rollout.reward;
  copy.has_reward = rollout.has_reward;
  return copy;
}

}  // namespace

BatchSampler::BatchSampler(const Config& config, const LoadedModel& policy, const PromptSources& prompt_sources,
                           SamplingRequest request)
    : config_(config), policy_(policy), prompt_sources_(prompt_sources), request_(std::move(request)) {}

RolloutBatch BatchSampler::sample(uint64_t position, const SamplerWeights& weights, uint64_t policy_version,
                                  const Events& events) {
  Stopwatch watch(weights.weights.device());
  RolloutBatch batch{.weights = weights, .policy_version = policy_version};
  PromptStream prompts = prompt_sources_.training();
  prompts.seek(position);
  const RolloutEngine engine(sampling_model(weights, config_.rollout.weights), policy_.tokenizer);
  if (config_.rollout.dynamic_sampling) {
    sample_dynamically(engine, prompts, batch, events);
  } else {
    batch.prompts = prompts.next(config_.train.prompts_per_step);
    batch.rollouts = sample_and_score(engine, batch.prompts, batch, events);
    batch.metrics = compute_rollout_metrics(batch.rollouts, request_.samples_per_prompt);
  }
  batch.position = prompts.position();
  batch.skipped_rows = prompts.skipped();
  batch.rollout_seconds = watch.lap() - batch.reward_seconds;
  return batch;
}

/// Samples completions and scores each group while others are still being sampled.
std::vector<Rollout> BatchSampler::sample_and_score(const RolloutEngine& engine, std::span<const Prompt> prompts,
                                                    RolloutBatch& batch, const Events& events) {
  SamplingRequest request = request_;
  request.policy_version = batch.policy_version;
  for (const Rollout& rollout : batch.rollouts) request.kept_bytes += rollout.tokens.kept.bytes();
  const size_t workers = thread_count(config_.reward.worker_count());
  const auto total = static_cast<int64_t>(prompts.size()) * request.samples_per_prompt;
  Stage stage(events.meter, "rollout", total);
  ScoringQueue queue(prompt_sources_.reward(), prompts, policy_.tokenizer, workers, events.check_cancelled);
  if (queue.threads() < workers && !std::exchange(warned_few_threads_, true))
    batch.warnings.push_back("only " + std::to_string(queue.threads()) + " of " + std::to_string(workers) +
                             " scoring threads could be started, so scoring is slower. " + kThreadLimits +
                             ", or lower reward.workers");
  const auto report_progress = [&](const RolloutProgress& progress) {
    stage.set(progress.finished, progress.tokens);
    if (events.check_cancelled) events.check_cancelled();
  };
  std::vector<Rollout> rollouts =
      engine.generate(prompts, request,
                      {.group = [&](std::span<Rollout> group) { queue.add(group); },
                       .progress = report_progress,
                       .warning = [&](const std::string& text) { batch.warnings.push_back(text); }});
  Stopwatch watch(policy_.model.device());
  events.meter.begin("scoring", total);
  batch.scores.add(queue.finish(
      rollouts, [&](size_t groups) { stage.set(static_cast<int64_t>(groups) * request.samples_per_prompt); }));
  batch.reward_seconds += watch.lap();
  batch.completions += rollouts.size();
  batch.tokens += token_count(rollouts);
  return rollouts;
}

/// DAPO's dynamic sampling: drops groups of equal rewards and samples further prompts until the step is full. The
/// result does not depend on the batch size: the step gets the next prompts of the stream whose rewards differ, and the
/// next step begins after the last prompt used.
void BatchSampler::sample_dynamically(const RolloutEngine& engine, PromptStream& stream, RolloutBatch& batch,
                                      const Events& events) {
  const auto needed = static_cast<size_t>(config_.train.prompts_per_step);
  const auto samples = static_cast<size_t>(request_.samples_per_prompt);
  std::vector<Rollout> sampled;  // for the metrics
  while (batch.prompts.size() < needed && batch.groups.batches < config_.rollout.max_batches) {
    std::vector<Prompt> prompts;
    std::vector<PromptStream::Bookmark> ends;  // stream position after each prompt
    while (prompts.size() < needed) {
      std::vector<Prompt> next = stream.next(1);
      if (next.empty()) break;  // the stream has ended and does not repeat
      prompts.push_back(std::move(next.front()));
      ends.push_back(stream.bookmark());
    }
    if (prompts.empty()) break;
    std::vector<Rollout> rollouts = sample_and_score(engine, prompts, batch, events);
    batch.groups.batches++;
    for (const Rollout& rollout : rollouts) sampled.push_back(copy_for_metrics(rollout));
    for (size_t i = 0; i < prompts.size() && batch.prompts.size() < needed; ++i) {
      const std::span<Rollout> group = std::span(rollouts).subspan(i * samples, samples);
      if (equal_rewards(group)) {
        batch.groups.dropped++;
        continue;
      }
      for (Rollout& rollout : group) {
        rollout.prompt = static_cast<int64_t>(batch.prompts.size());
        batch.rollouts.push_back(std::move(rollout));
      }
      batch.prompts.push_back(std::move(prompts[i]));
      stream.rewind(ends[i]);
    }
    if (batch.prompts.size() < needed) stream.rewind(ends.back());
  }
  batch.groups.sampled = static_cast<int64_t>(sampled.size() / samples);
  batch.groups.kept = static_cast<int64_t>(batch.prompts.size());
  batch.metrics = compute_rollout_metrics(sampled, request_.samples_per_prompt);
  if (batch.prompts.size() < needed && !std::exchange(warned_few_groups_, true))
    batch.warnings.push_back(
        "dynamic sampling: after " + std::to_string(batch.groups.batches) + " batches (rollout.max_batches), only " +
        std::to_string(batch.prompts.size()) + " of " + std::to_string(batch.groups.sampled) +
        " groups have differing rewards; a step needs " + std::to_string(needed) +
        ". This step trains on those groups. Later shortages are only in metrics.jsonl (rollout/groups)");
}

}  // namespace keel
