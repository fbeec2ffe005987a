#include "keel/train/update/drift.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "keel/train/update/annotate.h"

namespace keel {

Drift measure_drift(std::span<const Rollout> rollouts, const CausalLm& policy, const CausalLm& sampled_by,
                    double temperature, int64_t tokens_per_batch) {
  int64_t tokens = 0;
  std::vector<Rollout> sample;
  for (const Rollout& rollout : rollouts) {
    tokens += static_cast<int64_t>(rollout.tokens.prompt->ids.size() + rollout.tokens.ids.size());
    if (tokens > tokens_per_batch && !sample.empty()) break;
    sample.push_back(rollout);
  }
  const auto recompute = [&](const CausalLm& model) {
    annotate(sample, policy, model, nullptr, nullptr, {.recomputed_logp = true}, temperature, tokens_per_batch);
    std::vector<float> logp;
    for (const Rollout& rollout : sample)
      logp.insert(logp.end(), rollout.tokens.recomputed_logp.begin(), rollout.tokens.recomputed_logp.end());
    return logp;
  };
  const std::vector<float> old = recompute(sampled_by), current = recompute(policy);
  std::vector<float> sampler;
  for (const Rollout& rollout : sample)
    sampler.insert(sampler.end(), rollout.tokens.behavior_logp.begin(), rollout.tokens.behavior_logp.end());
  Drift drift;
  for (size_t i = 0; i < old.size(); ++i) {
    const double probability = std::exp(static_cast<double>(old[i]));
    const double mismatch = std::abs(probability - std::exp(static_cast<double>(sampler[i]))),
                 change = std::abs(std::exp(static_cast<double>(current[i])) - probability);
    drift.mismatch_mean += mismatch / static_cast<double>(old.size());
    drift.mean += change / static_cast<double>(old.size());
    drift.mismatch_max = std::max(drift.mismatch_max, mismatch);
    drift.max = std::max(drift.max, change);
  }
  return drift;
}

}  // namespace keel
