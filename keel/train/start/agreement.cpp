#include "keel/train/start/agreement.h"

#include <ATen/ATen.h>

#include <numeric>

#include "keel/core/error.h"
#include "keel/train/update/gradients.h"
#include "keel/train/update/policy_tokens.h"

namespace keel {
namespace {

/// A NaN on either side must not hide: it counts as infinitely far.
double largest(const Tensor& differences) {
  return differences.abs().nan_to_num(1e30, 1e30, 1e30).max().item<double>();
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
  const auto note = [](double& so_far, double difference) { so_far = std::max(so_far, difference); };
  for (const PackedBatch& batch : pack(chosen.sequences, tokens_per_batch, trainer.device())) {
    const KnownTokens known = known_about(batch, chosen, records);
    const TokenStats stats = token_statistics(trainer, batch, request.temperature, known.behavior);
    agreement.tokens += batch.target_count();
    note(agreement.max_difference, largest(stats.logp - known.policy.behavior_logp));
    if (records.top_k > 0) note(agreement.topk_difference, largest(stats.topk_logp - known.policy.topk_behavior_logp));
    if (records.hidden_states) note(agreement.total_variation, largest(stats.full_tv));
  }
  return agreement;
}

std::string agreement_sentence(const Agreement& agreement, const Requirements& needs) {
  const auto figure = [](const char* text, double number) {
    char shown[32];
    snprintf(shown, sizeof(shown), "%.1e", number);
    return text + std::string(shown);
  };
  std::string text = "self-test: sampler and trainer agree on " + std::to_string(agreement.tokens) +
                     figure(" tokens, largest |difference of log p| ", agreement.max_difference);
  if (needs.top_k > 0) text += figure(", of the likeliest tokens ", agreement.topk_difference);
  if (needs.hidden_states) text += figure(", largest total variation ", agreement.total_variation);
  return text;
}

void require_agreement(const Agreement& agreement, double limit) {
  hold("a log-probability differs by", agreement.max_difference, agreement, limit);
  hold("a log-probability of the sampler's likeliest tokens differs by", agreement.topk_difference, agreement, limit);
  hold("the total variation of their next-token distributions is up to", agreement.total_variation, agreement, limit);
}

}  // namespace keel
