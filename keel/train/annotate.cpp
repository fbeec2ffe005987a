#include "keel/train/annotate.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"
#include "keel/train/gradients.h"

namespace keel {
namespace {

/// One number for each target of a batch, from a function of the batch, into a member of each rollout.
template <class OfTargets>
void add(std::span<Rollout> rollouts, std::span<const PackedBatch> batches, std::vector<float> Rollout::*member,
         const OfTargets& of_targets) {
  for (const PackedBatch& batch : batches) {
    const Tensor numbers = of_targets(batch).cpu();
    const float* next = numbers.template const_data_ptr<float>();
    for (size_t s = 0; s < batch.sequences.size(); next += batch.lengths[s], ++s)
      (rollouts[batch.sequences[s]].*member).assign(next, next + batch.lengths[s]);
  }
}

}  // namespace

void annotate(std::span<Rollout> rollouts, std::span<const Prompt> prompts, const CausalLm& model,
              const CausalLm* reference, const Critic* critic, const Requirements& requirements, double temperature,
              int64_t tokens_per_batch) {
  if (!requirements.recomputed_logp && !requirements.reference_logp && !requirements.value) return;
  if (requirements.reference_logp && reference == nullptr)
    fail(ExitCode::kInternal, "reference log-probs are required, but there is no reference");
  if (requirements.value && critic == nullptr) fail(ExitCode::kInternal, "values are required, but there is no critic");
  std::vector<TrainingSequence> sequences;
  for (const Rollout& rollout : rollouts)
    sequences.push_back({prompts[rollout.prompt].tokens, rollout.tokens, rollout.prompt});
  const std::vector<PackedBatch> batches = pack(sequences, tokens_per_batch, model.device());
  const auto logp_of = [&](const CausalLm& weights) {
    return
        [w = &weights, temperature](const PackedBatch& batch) { return token_statistics(*w, batch, temperature).logp; };
  };
  if (requirements.recomputed_logp) add(rollouts, batches, &Rollout::recomputed_logp, logp_of(model));
  if (requirements.reference_logp) add(rollouts, batches, &Rollout::reference_logp, logp_of(*reference));
  if (requirements.value)
    add(rollouts, batches, &Rollout::values, [&](const PackedBatch& batch) {
      const at::NoGradGuard no_grad;
      return critic->head.values(predicting_states(critic->body_or(model), batch));
    });
}

}  // namespace keel
