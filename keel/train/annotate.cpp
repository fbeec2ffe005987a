#include "keel/train/annotate.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"
#include "keel/train/gradients.h"

namespace keel {
namespace {

/// The log-probabilities that these weights give the rollouts' tokens, into a member of each rollout.
void add_logp(std::span<Rollout> rollouts, std::span<const PackedBatch> batches, const CausalLm& weights,
              double temperature, std::vector<float> Rollout::*member) {
  for (const PackedBatch& batch : batches) {
    const Tensor logp = token_statistics(weights, batch, temperature).logp.cpu();
    const float* next = logp.const_data_ptr<float>();
    for (size_t s = 0; s < batch.sequences.size(); next += batch.lengths[s], ++s)
      (rollouts[batch.sequences[s]].*member).assign(next, next + batch.lengths[s]);
  }
}

}  // namespace

void annotate(std::span<Rollout> rollouts, std::span<const Prompt> prompts, const CausalLm& model,
              const CausalLm* reference, const Requirements& requirements, double temperature,
              int64_t tokens_per_batch) {
  if (!requirements.recomputed_logp && !requirements.reference_logp) return;
  std::vector<TrainingSequence> sequences;
  for (const Rollout& rollout : rollouts)
    sequences.push_back({prompts[rollout.prompt].tokens, rollout.tokens, rollout.prompt});
  const std::vector<PackedBatch> batches = pack(sequences, tokens_per_batch, model.device());
  if (requirements.recomputed_logp) add_logp(rollouts, batches, model, temperature, &Rollout::recomputed_logp);
  if (!requirements.reference_logp) return;
  if (reference == nullptr) fail(ExitCode::kInternal, "reference log-probs are required, but there is no reference");
  add_logp(rollouts, batches, *reference, temperature, &Rollout::reference_logp);
}

}  // namespace keel
