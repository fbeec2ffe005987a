#include "keel/train/batch_sampler.h"

#include <utility>

#include "keel/core/parallel.h"
#include "keel/core/tensor/stopwatch.h"
#include "keel/rollout/sampling_weights.h"

namespace keel {
namespace {

/// The part of a dropped completion that metrics count.
Rollout seen_of(const Rollout& rollout) {
  Rollout seen;
  seen.tokens.trained = rollout.tokens.trained;
  seen.finish = rollout.finish;
  seen.reward = rollout.reward;
  seen.judged = rollout.judged;
  return seen;
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
    fill(engine, prompts, batch, events);
  } else {
    batch.prompts = prompts.next(config_.train.prompts_per_step);
    batch.rollouts = draw(engine, batch.prompts, batch, events);
    batch.metrics = compute_rollout_metrics(batch.rollouts, request_.samples_per_prompt);
  }
  batch.position = prompts.position();
  batch.skipped_rows = prompts.skipped();
  batch.rollout_seconds = watch.lap() - batch.reward_seconds;
  return batch;
}

/// Samples completions and scores them meanwhile: a group is scored while others are still being sampled.
std::vector<Rollout> BatchSampler::draw(const RolloutEngine& engine, std::span<const Prompt> prompts,
                                        RolloutBatch& batch, const Events& events) {
  SamplingRequest request = request_;
  request.policy_version = batch.policy_version;
  const size_t workers = thread_count(config_.reward.worker_count());
  const auto all = static_cast<int64_t>(prompts.size()) * request.samples_per_prompt;
  Stage stage(events.meter, "rollout", all);
  ScoringQueue queue(prompt_sources_.reward(), prompts, policy_.tokenizer, workers, events.keep_on);
  if (queue.threads() < workers && !std::exchange(warned_few_threads_, true))
    batch.warnings.push_back("of " + std::to_string(workers) + " threads that score completions " +
                             std::to_string(queue.threads()) + " could be made; the run goes on, slower. " +
                             kThreadLimits + ", or lower reward.workers");
  const auto follow = [&](const RolloutProgress& progress) {
    stage.set(progress.finished, progress.tokens);
    if (events.keep_on) events.keep_on();
  };
  std::vector<Rollout> rollouts =
      engine.generate(prompts, request,
                      {.group = [&](std::span<Rollout> group) { queue.add(group); },
                       .progress = follow,
                       .warning = [&](const std::string& sentence) { batch.warnings.push_back(sentence); }});
  Stopwatch watch(policy_.model.device());
  events.meter.begin("scoring", all);
  batch.scores.add(queue.finish(
      rollouts, [&](size_t groups) { stage.set(static_cast<int64_t>(groups) * request.samples_per_prompt); }));
  batch.reward_seconds += watch.lap();
  batch.completions += rollouts.size();
  batch.tokens += token_count(rollouts);
  return rollouts;
}

/// DAPO's dynamic sampling: groups of equal rewards have zero advantages and are dropped. Further prompts are sampled
/// in their place, a batch at a time. Only its own completions decide about a prompt, so the batch has the next prompts
/// of the stream whose rewards differ; prompts after the last one taken are left to the next step.
void BatchSampler::fill(const RolloutEngine& engine, PromptStream& stream, RolloutBatch& batch, const Events& events) {
  const auto wanted = static_cast<size_t>(config_.train.prompts_per_step);
  const auto samples = static_cast<size_t>(request_.samples_per_prompt);
  std::vector<Rollout> seen;
  while (batch.prompts.size() < wanted && batch.groups.batches < config_.rollout.max_batches) {
    std::vector<Prompt> prompts;
    std::vector<PromptStream::Place> behind;  // each prompt
    while (prompts.size() < wanted) {
      std::vector<Prompt> next = stream.next(1);
      if (next.empty()) break;  // the end of a stream that does not repeat
      prompts.push_back(std::move(next.front()));
      behind.push_back(stream.place());
    }
    if (prompts.empty()) break;
    std::vector<Rollout> rollouts = draw(engine, prompts, batch, events);
    batch.groups.batches++;
    for (const Rollout& rollout : rollouts) seen.push_back(seen_of(rollout));
    for (size_t i = 0; i < prompts.size() && batch.prompts.size() < wanted; ++i) {
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
      stream.go_back_to(behind[i]);
    }
    if (batch.prompts.size() < wanted) stream.go_back_to(behind.back());
  }
  batch.groups.sampled = static_cast<int64_t>(seen.size() / samples);
  batch.groups.kept = static_cast<int64_t>(batch.prompts.size());
  batch.metrics = compute_rollout_metrics(seen, request_.samples_per_prompt);
  if (batch.prompts.size() < wanted && !std::exchange(warned_few_groups_, true))
    batch.warnings.push_back(
        "dynamic sampling: the rewards of " + std::to_string(batch.prompts.size()) + " of " +
        std::to_string(batch.groups.sampled) + " groups differ, and a step wants " + std::to_string(wanted) +
        "; it goes on with those, after " + std::to_string(batch.groups.batches) +
        " batches (rollout.max_batches). Told once; rollout/groups in metrics.jsonl has every step");
}

}  // namespace keel
