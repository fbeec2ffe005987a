#include "keel/train/update/update_certificate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "keel/objective/regions/divergence.h"
#include "keel/train/update/gradients.h"

namespace keel {
namespace {

void append(const Tensor& values, std::vector<double>& to) {
  const Tensor host = values.to(at::kDouble).cpu().contiguous();
  to.insert(to.end(), host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel());
}

bool all_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
}

RewardRange range_of(const std::vector<double>& rewards) {
  const auto [lowest, highest] = std::minmax_element(rewards.begin(), rewards.end());
  return {.lowest = *lowest, .highest = *highest};
}

Tensor total_variation(const LossInputs& policy, const Requirements& needs) {
  if (needs.hidden_states) return policy.divergence;
  if (needs.top_k > 0)
    return topk_tv({policy.topk_behavior_logp, policy.topk_logp, policy.behavior_logp, policy.logp,
                    policy.sampled_in_topk, policy.choices});
  return binary_tv(policy.logp, policy.behavior_logp);
}

}  // namespace

std::optional<ImprovementCertificate> compute_certificate(const CausalLm& updated, const ScoredRollouts& scored,
                                                          const Requirements& needs,
                                                          const CertificateOptions& options) {
  if (scored.rollouts.empty()) return std::nullopt;
  const Requirements recorded{.top_k = needs.top_k, .hidden_states = needs.hidden_states};
  std::vector<int64_t> all(scored.rollouts.size());
  std::iota(all.begin(), all.end(), 0);
  const SelectedRollouts selected = select_rollouts(scored, all);

  std::vector<double> logp, behavior_logp, divergences, rewards;
  for (const PackedBatch& batch : pack(selected.sequences, options.tokens_per_batch, updated.device())) {
    const TokenInputs inputs = gather_token_inputs(batch, selected, recorded);
    const TokenStats stats = token_statistics(updated, batch, options.temperature, inputs.behavior);
    const LossInputs policy = add_statistics(inputs, stats, recorded, /*begin=*/0);
    append(policy.logp, logp);
    append(policy.behavior_logp, behavior_logp);
    append(total_variation(policy, recorded), divergences);
  }
  if (!all_finite(logp) || !all_finite(behavior_logp) || !all_finite(divergences)) return std::nullopt;
  std::vector<int64_t> groups;
  for (const Rollout& rollout : scored.rollouts) {
    rewards.push_back(rollout.reward);
    groups.push_back(rollout.prompt);
  }
  const std::vector<int64_t> lengths = selected.lengths();
  return improvement_certificate({.logp = logp,
                                  .behavior_logp = behavior_logp,
                                  .divergences = divergences,
                                  .rewards = rewards,
                                  .lengths = lengths,
                                  .groups = groups,
                                  .range = options.range ? *options.range : range_of(rewards),
                                  .horizon = options.horizon,
                                  .divergence = recorded.hidden_states ? "full_tv"
                                                : recorded.top_k > 0   ? "topk_tv"
                                                                       : "binary_tv",
                                  .logp_error = kFloatLogProbError});
}

}  // namespace keel
