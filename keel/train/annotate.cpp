#include "keel/train/annotate.h"

#include <ATen/ATen.h>

#include "keel/train/gradients.h"

namespace keel {

void annotate(std::span<Rollout> rollouts, std::span<const Prompt> prompts, const CausalLm& model,
              const Requirements& requirements, double temperature, int64_t tokens_per_batch) {
  if (!requirements.recomputed_logp) return;
  std::vector<TrainingSequence> sequences;
  for (const Rollout& rollout : rollouts)
    sequences.push_back({prompts[rollout.prompt].tokens, rollout.tokens, rollout.prompt});
  for (const PackedBatch& batch : pack(sequences, tokens_per_batch, model.device())) {
    const Tensor logp = token_statistics(model, batch, temperature).logp.cpu();
    const float* next = logp.const_data_ptr<float>();
    for (size_t s = 0; s < batch.sequences.size(); next += batch.lengths[s], ++s)
      rollouts[batch.sequences[s]].recomputed_logp.assign(next, next + batch.lengths[s]);
  }
}

}  // namespace keel
