#include "keel/train/start/agreement.h"

#include <ATen/ATen.h>

#include <numeric>

#include "keel/core/error.h"
#include "keel/core/tensor/precision.h"
#include "keel/train/update/gradients.h"
#include "keel/train/update/policy_tokens.h"

namespace keel {
namespace {

/// A NaN on either side must not hide: it counts as infinitely far.
double largest(const Tensor& differences) {
  return differences.abs().nan_to_num(1e30, 1e30, 1e30).max().item<double>();
}

constexpr double kNarrowMean = 0.01, kNarrowDoubt = 0.3;  // of |pi - mu|, in bf16 and fp16

std::string figure(const char* text, double number) {
  char shown[32];
  snprintf(shown, sizeof(shown), "%.1e", number);
  return text + std::string(shown);
}

void hold(const char* what, double difference, const Agreement& agreement, double limit) {
  if (difference <= limit) return;
  fail(ExitCode::kHealthGuard, "sampler and trainer disagree at equal weights: ", what, " ", difference, " over ",
       agreement.tokens, " tokens, train.agreement_limit is ", limit,
       ". Every ratio would be wrong by that much; report this, or raise the limit if you know the cause");
}

}  // namespace

Agreement sampler_trainer_agreement(const CausalLm& sampler, const CausalLm& trainer, const Tokenizer& tokenizer,
                                    std::span<const Prompt> prompts, const SamplingRequest& request,
                                    int64_t tokens_per_batch) {
  const std::vector<Rollout> rollouts = RolloutEngine(sampler, tokenizer).generate(prompts, request);
  std::vector<std::vector<float>> worthless;  // nothing is learned from these
  for (const Rollout& rollout : rollouts) worthless.emplace_back(rollout.tokens.size(), 0.0f);
  std::vector<int64_t> all(rollouts.size());
  std::iota(all.begin(), all.end(), 0);
  const ChosenRollouts chosen = choose({prompts, rollouts, worthless, sampler.head().detach()}, all);
  const Requirements records{.top_k = request.top_k, .hidden_states = request.hidden_states};

  Agreement agreement;
  double prob_differences = 0;
  const auto note = [](double& so_far, double difference) { so_far = std::max(so_far, difference); };
  for (const PackedBatch& batch : pack(chosen.sequences, tokens_per_batch, trainer.device())) {
    const KnownTokens known = known_about(batch, chosen, records);
    const TokenStats stats = token_statistics(trainer, batch, request.temperature, known.behavior);
    agreement.tokens += batch.target_count();
    note(agreement.max_difference, largest(stats.logp - known.policy.behavior_logp));
    const Tensor apart = (stats.logp.exp() - known.policy.behavior_logp.exp()).abs();
    note(agreement.max_prob_difference, largest(apart));
    prob_differences += apart.nan_to_num(1e30, 1e30, 1e30).sum(at::kDouble).item<double>();
    if (records.top_k > 0) note(agreement.topk_difference, largest(stats.topk_logp - known.policy.topk_behavior_logp));
    if (records.hidden_states) note(agreement.total_variation, largest(stats.full_tv));
  }
  if (agreement.tokens > 0) agreement.mean_prob_difference = prob_differences / static_cast<double>(agreement.tokens);
  return agreement;
}

std::string agreement_sentence(const Agreement& agreement, const Requirements& needs, at::ScalarType computed_in) {
  std::string text = "self-test: sampler and trainer agree on " + std::to_string(agreement.tokens) + " tokens, ";
  if (is_narrow(computed_in))
    text += "in " + precision_word(computed_in) + figure(" |pi - mu| is on average ", agreement.mean_prob_difference) +
            figure(", at most ", agreement.max_prob_difference);
  else
    text += figure("largest |difference of log p| ", agreement.max_difference);
  if (needs.top_k > 0) text += figure(", of the likeliest tokens ", agreement.topk_difference);
  if (needs.hidden_states) text += figure(", largest total variation ", agreement.total_variation);
  return text;
}

void require_agreement(const Agreement& agreement, double limit, at::ScalarType computed_in) {
  if (!is_narrow(computed_in)) {
    hold("a log-probability differs by", agreement.max_difference, agreement, limit);
    hold("a log-probability of the sampler's likeliest tokens differs by", agreement.topk_difference, agreement, limit);
    hold("the total variation of their next-token distributions is up to", agreement.total_variation, agreement, limit);
    return;
  }
  if (agreement.mean_prob_difference <= kNarrowMean) return;
  fail(ExitCode::kHealthGuard, "sampler and trainer disagree at equal weights: |pi - mu| is on average ",
       agreement.mean_prob_difference, " over ", agreement.tokens, " tokens; rounding to ", precision_word(computed_in),
       " explains ", kNarrowMean,
       ". Every ratio would be wrong by that much; report this, or set run.precision=float32");
}

std::optional<std::string> agreement_warning(const Agreement& agreement, at::ScalarType computed_in) {
  if (!is_narrow(computed_in) || agreement.max_prob_difference <= kNarrowDoubt) return std::nullopt;
  return figure("sampler and trainer give a token probabilities that differ by ", agreement.max_prob_difference) +
         " at equal weights, by rounding to " + precision_word(computed_in) +
         " alone; run.precision=float32 has no such gap";
}

}  // namespace keel
