#include "keel/train/self_test.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"
#include "keel/train/gradients.h"

namespace keel {

Agreement sampler_trainer_agreement(const CausalLm& sampler, const CausalLm& trainer, const Tokenizer& tokenizer,
                                    std::span<const Prompt> prompts, const SamplingRequest& request,
                                    int64_t tokens_per_batch) {
  const std::vector<Rollout> rollouts = RolloutEngine(sampler, tokenizer).generate(prompts, request);
  std::vector<TrainingSequence> sequences;
  std::vector<std::span<const float>> behavior;
  for (const Rollout& rollout : rollouts) {
    sequences.push_back({prompts[rollout.prompt].tokens, rollout.tokens, rollout.prompt});
    behavior.push_back(rollout.behavior_logp);
  }
  Agreement agreement;
  for (const PackedBatch& batch : pack(sequences, tokens_per_batch, trainer.device())) {
    const Tensor logp = token_statistics(trainer, batch, request.temperature).logp;
    // A NaN on either side must not hide: it compares as infinitely far.
    const Tensor difference = (logp - gather_targets(batch, behavior)).abs().nan_to_num(1e30, 1e30, 1e30);
    agreement.tokens += batch.target_count();
    agreement.max_difference = std::max(agreement.max_difference, difference.max().item<double>());
  }
  return agreement;
}

void require_agreement(const Agreement& agreement, double limit) {
  if (agreement.max_difference <= limit) return;
  fail(ExitCode::kHealthGuard, "sampler and trainer disagree at equal weights: a log-probability differs by ",
       agreement.max_difference, " over ", agreement.tokens, " tokens, train.agreement_limit is ", limit,
       ". Every ratio would be wrong by that much; report this, or raise the limit if you know the cause");
}

}  // namespace keel
