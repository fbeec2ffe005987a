#include "keel/train/evaluation.h"

#include <cmath>

#include "keel/reward/score.h"
#include "keel/train/task_prompts.h"

namespace keel {

std::pair<double, double> wilson_interval(double successes, double count) {
  if (count <= 0) return {0, 1};
  constexpr double z = 1.959963984540054;
  const double p = successes / count, z2 = z * z;
  const double centre = (p + z2 / (2 * count)) / (1 + z2 / count);
  const double half = z / (1 + z2 / count) * std::sqrt(p * (1 - p) / count + z2 / (4 * count * count));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

Evaluation evaluate(const LoadedModel& policy, const Task& task, const std::string& task_name, int64_t count,
                    int64_t max_new_tokens, double temperature, uint64_t seed, int64_t max_sequences,
                    const std::function<bool()>& stop) {
  const SamplingRequest request{.samples_per_prompt = 1,
                                .temperature = temperature,
                                .max_new_tokens = max_new_tokens,
                                .stop_ids = policy.stop_ids,
                                .seed = seed ^ (uint64_t{static_cast<unsigned>(Stream::kEvaluation)} << 56),
                                .max_sequences = max_sequences};
  const RolloutEngine engine(policy.model.merged(), policy.tokenizer);
  Evaluation result;
  double successes = 0, length = 0, truncated = 0;
  while (result.count < count && !(stop && stop())) {
    std::vector<Prompt> prompts;
    for (int64_t i = result.count; i < std::min(count, result.count + max_sequences); ++i)
      prompts.push_back(task_prompt(task, policy, task_name, seed, static_cast<uint64_t>(i), Split::kHeldOut));
    std::vector<Rollout> rollouts = engine.generate(prompts, request);
    score(rollouts, prompts, policy.tokenizer, [&](const Prompt& prompt, std::string_view completion) {
      return task.check({prompt.text, prompt.answer}, completion);
    });
    for (Rollout& rollout : rollouts) {
      successes += rollout.reward;
      length += static_cast<double>(rollout.tokens.size());
      truncated += rollout.finish == Finish::kLength ? 1 : 0;
      rollout.prompt += result.count;
    }
    result.count += static_cast<int64_t>(prompts.size());
    std::move(prompts.begin(), prompts.end(), std::back_inserter(result.prompts));
    std::move(rollouts.begin(), rollouts.end(), std::back_inserter(result.rollouts));
  }
  const double judged = std::max(static_cast<double>(result.count), 1.0);
  result.accuracy = successes / judged;
  result.length_mean = length / judged;
  result.truncated = truncated / judged;
  std::tie(result.low, result.high) = wilson_interval(successes, static_cast<double>(result.count));
  return result;
}

}  // namespace keel
