#include "keel/train/evaluation.h"

#include <algorithm>
#include <cmath>

#include "keel/reward/math_verifier.h"

namespace keel {
namespace {

std::string answer_of(const Rollout& rollout) { return extract_math_answer(rollout.text).value_or(""); }

std::vector<int64_t> ks_of(const EvaluationRequest& request) {
  std::vector<int64_t> ks = request.ks;
  for (int64_t k = 1; request.ks.empty() && k <= request.samples; k *= 2) ks.push_back(k);
  return ks;
}

std::vector<JudgedPrompt> judged(std::span<const Prompt> prompts, std::span<const Rollout> rollouts) {
  std::vector<JudgedPrompt> result(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) result[i].source = prompts[i].source;
  for (const Rollout& rollout : rollouts) {
    result[rollout.prompt].rewards.push_back(rollout.reward);
    result[rollout.prompt].answers.push_back(answer_of(rollout));
  }
  return result;
}

/// Everything that follows from the rollouts.
void summarize(Evaluation& result, std::span<const Prompt> prompts, const EvaluationRequest& request) {
  if (result.rollouts.empty()) return;
  double sum = 0, length = 0, truncated = 0;
  bool right_or_wrong = request.samples == 1;
  for (const Rollout& rollout : result.rollouts) {
    sum += rollout.reward;
    length += static_cast<double>(rollout.tokens.size());
    truncated += rollout.finish == Finish::kLength ? 1 : 0;
    right_or_wrong = right_or_wrong && (rollout.reward == 0 || rollout.reward == 1);
  }
  const double count = static_cast<double>(result.rollouts.size());
  result.accuracy = sum / count;
  result.length_mean = length / count;
  result.truncated = truncated / count;
  result.sources = evaluation_statistics(judged(prompts, result.rollouts), ks_of(request), request.seed);
  const Estimate& average = result.sources.back().measures.front().estimate;
  std::tie(result.low, result.high) =
      right_or_wrong ? wilson_interval(sum, count) : std::pair(average.low, average.high);
}

}  // namespace

EvaluationRequest evaluation_request(const Config& config) {
  return {.samples = config.eval.samples,
          .temperature = config.eval.temperature,
          .top_p = config.eval.top_p,
          .max_new_tokens = longest_completion(config),
          .ks = config.eval.ks,
          .seed = config.run.seed,
          .max_sequences = config.rollout.max_sequences,
          .reward_threads = config.reward.worker_count()};
}

Evaluation evaluate(const LoadedModel& policy, std::span<const Prompt> prompts, const RewardSum& reward,
                    const EvaluationRequest& request, const std::function<bool()>& stop) {
  const SamplingRequest sampling{
      .samples_per_prompt = request.samples,
      .temperature = request.temperature,
      .top_p = request.top_p,
      .max_new_tokens = request.max_new_tokens,
      .stop_ids = policy.stop_ids,
      .seed = request.seed ^ (uint64_t{static_cast<unsigned>(Stream::kEvaluation)} << 56),  // not the noise of training
      .max_sequences = request.max_sequences};
  const RolloutEngine engine(policy.model.merged(), policy.tokenizer);
  const size_t at_once = static_cast<size_t>(std::max<int64_t>(1, request.max_sequences / request.samples));
  Evaluation result;
  for (size_t begin = 0; begin < prompts.size() && !(stop && stop()); begin += at_once) {
    const std::span<const Prompt> batch = prompts.subspan(begin, std::min(at_once, prompts.size() - begin));
    std::vector<Rollout> rollouts = engine.generate(batch, sampling);
    result.scores.add(score(rollouts, batch, policy.tokenizer, reward, request.reward_threads));
    for (Rollout& rollout : rollouts) rollout.prompt += static_cast<int64_t>(begin);
    std::move(rollouts.begin(), rollouts.end(), std::back_inserter(result.rollouts));
    result.count += static_cast<int64_t>(batch.size());
  }
  summarize(result, prompts.first(static_cast<size_t>(result.count)), request);
  return result;
}

void write_evaluation(const Evaluation& evaluation, Json& row) {
  row["eval/accuracy"] = evaluation.accuracy;
  row["eval/low"] = evaluation.low;
  row["eval/high"] = evaluation.high;
  row["eval/count"] = evaluation.count;
  row["eval/length_mean"] = evaluation.length_mean;
  row["eval/truncated"] = evaluation.truncated;
  for (const SourceStatistics& source : evaluation.sources) {
    const bool whole = &source == &evaluation.sources.back();
    if (whole && source.samples == 1) continue;  // eval/accuracy says it
    const std::string prefix = whole ? "eval/" : "eval/" + source.source + "/";
    for (const auto& [name, estimate] : source.measures) row[prefix + name] = estimate.mean;
  }
}

Json evaluation_sample(const Prompt& prompt, const Rollout& rollout) {
  return {{"prompt_id", prompt.id},
          {"source", prompt.source},
          {"prompt", prompt.text},
          {"completion", rollout.text},
          {"answer", answer_of(rollout)},
          {"reward", rollout.reward},
          {"finish", rollout.finish == Finish::kStop ? "stop" : "length"}};
}

std::pair<double, double> wilson_interval(double successes, double count) {
  if (count <= 0) return {0, 1};
  constexpr double z = 1.959963984540054;
  const double p = successes / count, z2 = z * z;
  const double centre = (p + z2 / (2 * count)) / (1 + z2 / count);
  const double half = z / (1 + z2 / count) * std::sqrt(p * (1 - p) / count + z2 / (4 * count * count));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

}  // namespace keel
