#include "keel/evaluation/evaluation.h"

#include <algorithm>
#include <atomic>

#include "keel/core/interrupt.h"
#include "keel/core/parallel.h"
#include "keel/core/philox.h"
#include "keel/data/problem_indices.h"

namespace keel {
namespace {

/// Scores all groups of a batch. Returns false if it was interrupted.
bool score_batch(std::span<const Rollout> rollouts, std::span<const Prompt> batch, const Tokenizer& tokenizer,
                 const RewardSum& reward, const EvaluationRequest& request, const std::function<bool()>& stop,
                 Evaluation& result) {
  std::vector<GroupScore> scores(batch.size());
  std::vector<std::vector<Verdict>> verdicts(batch.size());
  std::atomic<bool> stopped = false;
  parallel_for(batch.size(), request.reward_threads, [&](size_t i) {
    if (stopped || (stop && stop())) {
      stopped = true;
      return;
    }
    const auto group_size = static_cast<size_t>(request.samples);
    const std::vector<RewardSample> samples =
        make_reward_samples(rollouts.subspan(i * group_size, group_size), batch, tokenizer);
    scores[i] = score_group(samples, reward);
    verdicts[i] = compute_verdicts(reward, samples, scores[i].result);
  });
  if (stopped) return false;
  for (size_t i = 0; i < batch.size(); ++i) {
    result.scores.add(scores[i].report);
    std::move(verdicts[i].begin(), verdicts[i].end(), std::back_inserter(result.verdicts));
  }
  return true;
}

/// Groups the samples by problem: repeated rows of one problem share their samples.
std::vector<ScoredPrompt> group_by_problem(std::span<const Prompt> prompts, const Evaluation& result) {
  const std::vector<size_t> problems = problem_indices(prompts);
  std::vector<ScoredPrompt> grouped;
  for (size_t i = 0; i < prompts.size(); ++i)
    if (problems[i] == grouped.size()) grouped.push_back({.source = prompts[i].source, .samples = {}});
  for (size_t i = 0; i < result.rollouts.size(); ++i)
    grouped[problems[static_cast<size_t>(result.rollouts[i].prompt)]].samples.push_back(result.verdicts[i]);
  return grouped;
}

/// Computes the statistics from the rollouts and the verdicts.
void summarize(Evaluation& result, std::span<const Prompt> prompts) {
  if (result.rollouts.empty()) return;
  double length = 0, truncated = 0;
  for (const Rollout& rollout : result.rollouts) {
    length += static_cast<double>(rollout.tokens.trained_count());
    truncated += rollout.finish == Finish::kLength ? 1 : 0;
  }
  const double count = static_cast<double>(result.rollouts.size());
  result.length_mean = length / count;
  result.truncated = truncated / count;
  result.statistics = evaluation_statistics(group_by_problem(prompts, result));
  result.mean = result.statistics.all.measures.front().estimate.mean;
}

}  // namespace

Evaluation evaluate(const RolloutEngine& engine, std::span<const Prompt> prompts, const RewardSum& reward,
                    const EvaluationRequest& request, const std::function<bool()>& stop, StageMeter* meter) {
  const SamplingRequest sampling{.samples_per_prompt = request.samples,
                                 .temperature = request.temperature,
                                 .filter = request.filter,
                                 .max_new_tokens = request.max_new_tokens,
                                 .stop_ids = request.stop_ids,
                                 .stop_strings = request.stop_strings,
                                 .seed = request.seed ^ (uint64_t{static_cast<unsigned>(Stream::kEvaluation)}
                                                         << 56),  // a random stream separate from training
                                 .policy_version = request.policy_version,
                                 .max_sequences = request.max_sequences};
  const size_t batch_size = static_cast<size_t>(std::max<int64_t>(1, request.max_sequences / request.samples));
  StageMeter unused;
  Stage stage(meter ? *meter : unused, "evaluation", static_cast<int64_t>(prompts.size()) * request.samples);
  Evaluation result;
  int64_t tokens = 0;  // of earlier batches
  const auto show_progress = [&](const RolloutProgress& progress) {
    stage.set(static_cast<int64_t>(result.rollouts.size()) + progress.finished, tokens + progress.tokens);
  };
  result.is_accuracy = reward.is_binary();
  for (size_t begin = 0; begin < prompts.size() && !(stop && stop()); begin += batch_size) {
    const std::span<const Prompt> batch = prompts.subspan(begin, std::min(batch_size, prompts.size() - begin));
    std::vector<Rollout> rollouts;
    try {
      rollouts = engine.generate(batch, sampling, {.progress = show_progress});
      if (!score_batch(rollouts, batch, engine.tokenizer(), reward, request, stop, result)) break;
    } catch (const Interrupted&) {
      break;
    }
    for (Rollout& rollout : rollouts) {
      tokens += rollout.tokens.trained_count();
      rollout.prompt += static_cast<int64_t>(begin);
      rollout.reward = result.verdicts[result.rollouts.size()].reward.value_or(0);
      result.rollouts.push_back(std::move(rollout));
    }
    result.count += static_cast<int64_t>(batch.size());
  }
  summarize(result, prompts.first(static_cast<size_t>(result.count)));
  return result;
}

void write_evaluation(const Evaluation& evaluation, Json& row) {
  const EvaluationStatistics& statistics = evaluation.statistics;
  if (evaluation.has_rewards()) {
    row[std::string("eval/") + evaluation.mean_name()] = evaluation.mean;
    if (const std::optional<Interval>& interval = evaluation.interval()) {
      row["eval/low"] = interval->first;
      row["eval/high"] = interval->second;
    }
  }
  row["eval/count"] = statistics.all.prompts;
  row["eval/length_mean"] = evaluation.length_mean;
  row["eval/truncated"] = evaluation.truncated;
  if (statistics.all.unscored > 0) row["eval/unjudged"] = statistics.all.unscored;
  const auto write = [&](const SourceStatistics& source, const std::string& prefix) {
    for (const auto& [name, estimate] : source.measures)
      if (estimate.prompts > 0) row[prefix + name] = estimate.mean;
  };
  if (statistics.all.samples > 1) write(statistics.all, "eval/");  // else they equal the mean
  if (statistics.sources.size() < 2) return;
  for (const SourceStatistics& source : statistics.sources) write(source, "eval/" + source.source + "/");
}

Json evaluation_sample(const Prompt& prompt, const Rollout& rollout, const Verdict& verdict) {
  return {{"prompt_id", prompt.id},
          {"source", prompt.source},
          {"prompt", prompt.text},
          {"gold", prompt.answer},
          {"completion", rollout.text},
          {"answer", verdict.answer.text},
          {"reward", verdict.reward ? Json(*verdict.reward) : Json()},
          {"solved", verdict.reward ? Json(verdict.solved) : Json()},
          {"finish", finish_name(rollout.finish)}};
}

}  // namespace keel
