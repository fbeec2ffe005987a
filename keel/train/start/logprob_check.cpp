#include "keel/train/start/logprob_check.h"

#include <ATen/ATen.h>

#include <numeric>
#include <sstream>
#include <utility>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/precision.h"
#include "keel/train/update/gradients.h"
#include "keel/train/update/policy_tokens.h"

namespace keel {
namespace {

/// Returns absolute values, with NaN as a huge difference.
Tensor abs_or_huge(const Tensor& differences) { return differences.to(at::kDouble).abs().nan_to_num(1e30, 1e30, 1e30); }

/// Returns |pi - mu|.
Tensor prob_differences(const Tensor& logp, const Tensor& behavior_logp) {
  return abs_or_huge(logp.to(at::kDouble).exp() - behavior_logp.to(at::kDouble).exp());
}

constexpr double kMaxInFloat32 = 1e-4, kMaxMeanInBf16 = 0.01, kWarnAbove = 0.3;  // of |pi - mu|

}  // namespace

LogprobCheck check_sampler_matches_trainer(const SamplerWeights& sampled, const CausalLm& trainer,
                                           const Tokenizer& tokenizer, std::span<const Prompt> prompts,
                                           const SamplingRequest& request, int64_t tokens_per_batch) {
  const std::vector<Rollout> rollouts = RolloutEngine(SamplingModel(sampled), tokenizer).generate(prompts, request);
  std::vector<std::vector<float>> zeros;  // advantages
  for (const Rollout& rollout : rollouts) zeros.emplace_back(rollout.tokens.trained_count(), 0.0f);
  std::vector<int64_t> all(rollouts.size());
  std::iota(all.begin(), all.end(), 0);
  const SelectedRollouts selected = select_rollouts({rollouts, zeros, sampled.weights.head().value()}, all);
  const Requirements requirements{.top_k = request.top_k, .hidden_states = request.hidden_states};

  LogprobCheck check;
  double sum = 0;
  const auto update_max = [](double& maximum, double difference) { maximum = std::max(maximum, difference); };
  for (const PackedBatch& batch : pack(selected.sequences, tokens_per_batch, trainer.device())) {
    const TokenInputs inputs = gather_token_inputs(batch, selected, requirements);
    const TokenStats stats = token_statistics(trainer, batch, request.temperature, inputs.behavior);
    const Tensor difference = prob_differences(stats.logp, inputs.loss_inputs.behavior_logp);
    check.tokens += batch.target_count();
    sum += difference.sum().item<double>();
    update_max(check.max_difference, difference.max().item<double>());
    if (requirements.top_k > 0)
      update_max(check.topk_difference,
                 prob_differences(stats.topk_logp, inputs.loss_inputs.topk_behavior_logp).max().item<double>());
    if (requirements.hidden_states) update_max(check.total_variation, abs_or_huge(stats.full_tv).max().item<double>());
  }
  if (check.tokens > 0) check.mean_difference = sum / static_cast<double>(check.tokens);
  return check;
}

std::string describe_logprob_check(const LogprobCheck& check, const Requirements& needs) {
  std::string text = "self-test: sampler and trainer agree on " + std::to_string(check.tokens) +
                     " tokens: mean |pi - mu| " + scientific(check.mean_difference) + ", maximum " +
                     scientific(check.max_difference);
  if (needs.top_k > 0) text += ", of the top-K tokens " + scientific(check.topk_difference);
  if (needs.hidden_states) text += ", maximum total variation " + scientific(check.total_variation);
  return text;
}

std::optional<std::string> find_logprob_mismatch(const LogprobCheck& check, double limit, at::ScalarType computed_in) {
  const bool narrow = is_narrow(computed_in);
  const double threshold = limit > 0 ? limit : narrow ? kMaxMeanInBf16 : kMaxInFloat32;
  std::vector<std::pair<const char*, double>> checked = {{"the mean of |pi - mu| is", check.mean_difference}};
  if (!narrow)
    checked = {{"the maximum of |pi - mu| is", check.max_difference},
               {"the maximum of |pi - mu| over the sampler's top-K tokens is", check.topk_difference},
               {"the maximum total variation of their next-token distributions is", check.total_variation}};
  for (const auto& [what, difference] : checked) {
    if (difference <= threshold) continue;
    std::ostringstream text;
    text << what << " " << difference << " over " << check.tokens << " tokens, the limit is " << threshold;
    return text.str();
  }
  return std::nullopt;
}

void require_logprobs_match(const LogprobCheck& check, double limit, at::ScalarType computed_in) {
  if (const auto found = find_logprob_mismatch(check, limit, computed_in))
    fail(ExitCode::kHealthGuard, "sampler and trainer disagree at equal weights: ", *found,
         ". All ratios would be wrong; please report this");
}

std::optional<std::string> logprob_check_warning(const LogprobCheck& check, at::ScalarType computed_in) {
  if (!is_narrow(computed_in) || check.max_difference <= kWarnAbove) return std::nullopt;
  return "the probability of a token differs by " + scientific(check.max_difference) +
         " between sampler and trainer at equal weights, because of rounding to " + precision_name(computed_in) +
         "; set run.precision=float32 to avoid it";
}

}  // namespace keel
