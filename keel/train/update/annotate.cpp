#include "keel/train/update/annotate.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"
#include "keel/train/update/gradients.h"
#include "keel/train/update/policy_tokens.h"

namespace keel {
namespace {

/// Copies one value per target of the batch into a column of each rollout.
void fill_column(std::span<Rollout> rollouts, const PackedBatch& batch, RolloutColumn column, const Tensor& values) {
  const Tensor host = values.cpu();
  const float* next = host.const_data_ptr<float>();
  for (size_t s = 0; s < batch.sequences.size(); next += batch.lengths[s], ++s)
    (rollouts[batch.sequences[s]].tokens.*column).assign(next, next + batch.lengths[s]);
}

}  // namespace

void annotate(std::span<Rollout> rollouts, const CausalLm& model, const CausalLm& behavior, const CausalLm* reference,
              const Critic* critic, const Requirements& requirements, double temperature, int64_t tokens_per_batch) {
  if (!requirements.recomputed_logp && !requirements.reference_logp && !requirements.value) return;
  if (requirements.reference_logp && reference == nullptr)
    fail(ExitCode::kInternal, "reference log-probs are required, but there is no reference");
  if (requirements.value && critic == nullptr) fail(ExitCode::kInternal, "values are required, but there is no critic");
  std::vector<TrainingSequence> sequences;
  for (const Rollout& rollout : rollouts) sequences.push_back(training_sequence(rollout));
  const std::vector<PackedBatch> batches = pack(sequences, tokens_per_batch, model.device());
  const at::NoGradGuard no_grad;
  std::vector<const Rollout*> sampled;
  for (const Rollout& rollout : rollouts) sampled.push_back(&rollout);
  for (const PackedBatch& batch : batches) {
    const BehaviorRows support{.kept = gather_kept_tokens(batch, sampled)};
    if (requirements.recomputed_logp) {
      const TokenStats stats = token_statistics(behavior, batch, temperature, support);
      fill_column(rollouts, batch, &TokenColumns::recomputed_logp, stats.logp);
      fill_column(rollouts, batch, &TokenColumns::recomputed_other_logp, stats.other_logp);
    }
    if (requirements.reference_logp)
      fill_column(rollouts, batch, &TokenColumns::reference_logp,
                  token_statistics(*reference, batch, temperature, support).logp);
    if (requirements.value)
      fill_column(rollouts, batch, &TokenColumns::values,
                  critic->head.values(target_hidden_states(critic->body_or(model), batch)));
  }
}

}  // namespace keel
