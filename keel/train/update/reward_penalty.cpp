#include "keel/train/update/reward_penalty.h"

#include <ATen/ATen.h>

namespace keel {

std::optional<RewardPenalty> reward_penalty(const RewardKl& kl, std::span<const Rollout> rollouts) {
  if (kl.coefficient == 0 || rollouts.empty()) return std::nullopt;
  const auto wide = [](const std::vector<float>& numbers) { return at::tensor(numbers).to(at::kDouble); };
  RewardPenalty result{.tokens = {}, .coefficient = kl.coefficient};
  for (const Rollout& rollout : rollouts) {
    const Tensor estimates =
        reference_kl(kl.estimator, wide(rollout.tokens.recomputed_logp), wide(rollout.tokens.reference_logp));
    const double* first = estimates.const_data_ptr<double>();
    std::vector<double>& penalties = result.tokens.emplace_back(first, first + estimates.numel());
    double sum = 0;
    for (double& penalty : penalties) {
      sum += penalty;
      penalty *= kl.coefficient;
    }
    result.kl += sum / static_cast<double>(penalties.size()) / static_cast<double>(rollouts.size());
  }
  return result;
}

}  // namespace keel
