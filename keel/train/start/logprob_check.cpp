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

/// A NaN on either side must not hide: it counts as infinitely far.
Tensor far_if_nan(const Tensor& differences) { return differences.to(at::kDouble).abs().nan_to_num(1e30, 1e30, 1e30); }

/// |pi - mu|, from log-probabilities.
Tensor distances(const Tensor& logp, const Tensor& behavior_logp) {
  return far_if_nan(logp.to(at::kDouble).exp() - behavior_logp.to(at::kDouble).exp());
}

constexpr double kMostInFloat32 = 1e-4, kMeanOfNarrow = 0.01, kDoubtful = 0.3;  // of |pi - mu|

}  // namespace

LogprobCheck check_sampler_matches_trainer(const SamplerWeights& sampled, const CausalLm& trainer,
                                           const Tokenizer& tokenizer, std::span<const Prompt> prompts,
                                           const SamplingRequest& request, int64_t tokens_per_batch) {
  const std::vector<Rollout> rollouts = RolloutEngine(SamplingModel(sampled), tokenizer).generate(prompts, request);
  std::vector<std::vector<float>> worthless;  // nothing is learned from these
  for (const Rollout& rollout : rollouts) worthless.emplace_back(rollout.tokens.trained_count(), 0.0f);
  std::vector<int64_t> all(rollouts.size());
  std::iota(all.begin(), all.end(), 0);
  const SelectedRollouts chosen = select_rollouts({rollouts, worthless, sampled.weights.head().value()}, all);
  const Requirements records{.top_k = request.top_k, .hidden_states = request.hidden_states};

  LogprobCheck check;
  double sum = 0;
  const auto note = [](double& so_far, double difference) { so_far = std::max(so_far, difference); };
  for (const PackedBatch& batch : pack(chosen.sequences, tokens_per_batch, trainer.device())) {
    const TokenInputs known = gather_token_inputs(batch, chosen, records);
    const TokenStats stats = token_statistics(trainer, batch, request.temperature, known.behavior);
    const Tensor apart = distances(stats.logp, known.policy.behavior_logp);
    check.tokens += batch.target_count();
    sum += apart.sum().item<double>();
    note(check.max_difference, apart.max().item<double>());
    if (records.top_k > 0)
      note(check.topk_difference, distances(stats.topk_logp, known.policy.topk_behavior_logp).max().item<double>());
    if (records.hidden_states) note(check.total_variation, far_if_nan(stats.full_tv).max().item<double>());
  }
  if (check.tokens > 0) check.mean_difference = sum / static_cast<double>(check.tokens);
  return check;
}

std::string describe_logprob_check(const LogprobCheck& check, const Requirements& needs) {
  std::string text = "self-test: sampler and trainer agree on " + std::to_string(check.tokens) +
                     " tokens: |pi - mu| is on average " + scientific(check.mean_difference) + ", at most " +
                     scientific(check.max_difference);
  if (needs.top_k > 0) text += ", of the likeliest tokens " + scientific(check.topk_difference);
  if (needs.hidden_states) text += ", largest total variation " + scientific(check.total_variation);
  return text;
}

std::optional<std::string> find_logprob_mismatch(const LogprobCheck& check, double limit, at::ScalarType computed_in) {
  const bool narrow = is_narrow(computed_in);
  const double most = limit > 0 ? limit : narrow ? kMeanOfNarrow : kMostInFloat32;
  std::vector<std::pair<const char*, double>> held = {{"|pi - mu| is on average", check.mean_difference}};
  if (!narrow)
    held = {{"|pi - mu| is up to", check.max_difference},
            {"|pi - mu| of the sampler's likeliest tokens is up to", check.topk_difference},
            {"the total variation of their next-token distributions is up to", check.total_variation}};
  for (const auto& [what, difference] : held) {
    if (difference <= most) continue;
    std::ostringstream text;
    text << what << " " << difference << " over " << check.tokens << " tokens, the limit is " << most;
    return text.str();
  }
  return std::nullopt;
}

void require_logprobs_match(const LogprobCheck& check, double limit, at::ScalarType computed_in) {
  if (const auto found = find_logprob_mismatch(check, limit, computed_in))
    fail(ExitCode::kHealthGuard, "sampler and trainer disagree at equal weights: ", *found,
         ". Every ratio would be wrong by that much; report this");
}

std::optional<std::string> logprob_check_warning(const LogprobCheck& check, at::ScalarType computed_in) {
  if (!is_narrow(computed_in) || check.max_difference <= kDoubtful) return std::nullopt;
  return "sampler and trainer give a token probabilities that differ by " + scientific(check.max_difference) +
         " at equal weights, by rounding to " + precision_word(computed_in) +
         " alone; run.precision=float32 has no such gap";
}

}  // namespace keel
