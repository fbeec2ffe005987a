#include "keel/train/update/policy_update.h"

#include <ATen/ATen.h>

#include "keel/core/strings.h"
#include "keel/objective/aggregation.h"

namespace keel {
namespace {

/// The tokens of several batches as those of one.
LossInputs joined(const std::vector<LossInputs>& parts) {
  LossInputs all;
  for (const auto column : kTokenColumns) {
    std::vector<Tensor> tensors;
    for (const LossInputs& part : parts)
      if ((part.*column).defined()) tensors.push_back(part.*column);
    if (!tensors.empty()) all.*column = at::cat(tensors);
  }
  for (const LossInputs& part : parts) {
    all.lengths.insert(all.lengths.end(), part.lengths.begin(), part.lengths.end());
    all.groups.insert(all.groups.end(), part.groups.begin(), part.groups.end());
  }
  return all;
}

/// Some of the tokens. How many log-ratios were clamped in all of them is told with the first.
TokenDecision rows_of(const TokenDecision& all, int64_t begin, int64_t count) {
  const auto rows = [&](const Tensor& x) { return x.narrow(0, begin, count); };
  return {rows(all.coefficient), rows(all.keep),    rows(all.divergence),
          rows(all.threshold),   rows(all.outside), begin == 0 ? all.clamped : at::zeros_like(all.clamped)};
}

/// What the objective decides about every target of the update, seen all at once: a pass without gradients over the
/// batches, in their order.
TokenDecision decide_together(const CausalLm& model, const Objective& objective, double temperature,
                              const std::vector<PackedBatch>& batches, const SelectedRollouts& chosen) {
  const Requirements needs = objective.requirements();
  std::vector<LossInputs> parts;
  for (const PackedBatch& batch : batches) {
    const TokenInputs known = gather_token_inputs(batch, chosen, needs);
    parts.push_back(
        with_statistics(known, token_statistics(model, batch, temperature, known.behavior), needs, /*begin=*/0));
  }
  return token_coefficients(objective.method.region, joined(parts));
}

}  // namespace

void accumulate_policy_gradients(const CausalLm& model, const Objective& objective, const UpdateOptions& pass,
                                 int64_t tokens_per_batch, const ScoredRollouts& scored,
                                 std::span<const int64_t> indices, const TokenObserver& observe) {
  const Requirements needs = objective.requirements();
  const SelectedRollouts chosen = select_rollouts(scored, indices);
  const std::vector<double> weight_of =
      sequence_weights(objective.method.aggregation, chosen.lengths(), objective.horizon);
  const std::vector<PackedBatch> batches = pack(chosen.sequences, tokens_per_batch, model.device());
  const bool together = needs.scope == Scope::kBatch;
  const TokenDecision decided =
      together ? decide_together(model, objective, pass.temperature, batches, chosen) : TokenDecision{};
  int64_t first = 0;  // target of the update at which the batch starts
  for (const PackedBatch& batch : batches) {
    const TokenInputs known = gather_token_inputs(batch, chosen, needs);
    const Tensor weights = repeat_per_target(batch, weight_of);
    const auto coefficients = [&](const TokenStats& stats, int64_t begin, int64_t end) -> HeadCoefficients {
      const auto rows = [&](const Tensor& x) { return x.narrow(0, begin, end - begin); };
      const LossInputs policy = with_statistics(known, stats, needs, begin);
      TokenDecision decision =
          together ? rows_of(decided, first + begin, end - begin) : token_coefficients(objective.method.region, policy);
      Tensor kl;                           // to the reference
      if (objective.kl_coefficient > 0) {  // blocked tokens are pulled to the reference like all others
        const Tensor reference_logp = rows(known.reference_logp);
        decision.coefficient =
            decision.coefficient +
            reference_kl_coefficient(objective.kl_estimator, objective.kl_coefficient, policy.logp, reference_logp);
        decision.clamped =
            decision.clamped + reference_kl_clamp_count(objective.kl_estimator, policy.logp, reference_logp);
        kl = reference_kl(objective.kl_estimator, policy.logp, reference_logp);
      }
      const TokenUpdate tokens{batch, begin, stats, policy, decision, rows(weights), kl};
      observe(tokens);
      HeadCoefficients result{.coefficient = decision.coefficient * tokens.weights, .entropy_coefficient = {}};
      if (objective.entropy_coefficient != 0)
        result.entropy_coefficient = tokens.weights * objective.entropy_coefficient;
      return result;
    };
    // What was decided together needs the head's statistics no more than a token at a time.
    const Scope scope = together ? Scope::kToken : needs.scope;
    accumulate_gradients(model, batch, pass, scope, coefficients, together ? BehaviorRows{} : known.behavior);
    first += batch.target_count();
  }
}

}  // namespace keel
