#include "keel/train/update/policy_update.h"

#include <ATen/ATen.h>

#include "keel/core/strings.h"
#include "keel/objective/aggregation.h"

namespace keel {
namespace {

/// Concatenates the tokens of several batches.
LossInputs merge_batches(const std::vector<LossInputs>& parts) {
  LossInputs all;
  for (const auto column : kLossTensors) {
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

/// The decision for a range of tokens. The first range carries the clamp count of all tokens.
TokenDecision slice(const TokenDecision& all, int64_t begin, int64_t count) {
  const auto part = [&](const Tensor& x) { return x.narrow(0, begin, count); };
  return {part(all.coefficient), part(all.keep),    part(all.divergence),
          part(all.threshold),   part(all.outside), begin == 0 ? all.clamped : at::zeros_like(all.clamped)};
}

/// Decides about all targets of the update at once, for methods with batch scope: one forward pass over all batches,
/// without gradients and dropout. The later pass with gradients applies dropout.
TokenDecision decide_whole_update(const CausalLm& model, const Objective& objective, double temperature,
                                  const std::vector<PackedBatch>& batches, const SelectedRollouts& selected) {
  const Requirements needs = objective.requirements();
  std::vector<LossInputs> parts;
  for (const PackedBatch& batch : batches) {
    const TokenInputs inputs = gather_token_inputs(batch, selected, needs);
    parts.push_back(
        add_statistics(inputs, token_statistics(model, batch, temperature, inputs.behavior), needs, /*begin=*/0));
  }
  return token_coefficients(objective.method.region, merge_batches(parts));
}

/// Score centering of the tokens, with the weights of their aggregation.
ScoreCentering center_scores(const Objective& objective, const LossInputs& policy, const Tensor& weights) {
  if (objective.centering == Centering::kNone) return {};
  ScoreCentering centering{.advantages = policy.advantages * weights};
  if (objective.centering == Centering::kExact) return centering;
  const TopKCentering topk =
      topk_centering(objective.method.region, policy.advantages, policy.topk_logp, policy.topk_behavior_logp);
  centering.masses = topk.masses.to(at::kFloat), centering.others = topk.others.to(at::kFloat);
  centering.totals = topk.totals.to(at::kFloat);
  return centering;
}

}  // namespace

void accumulate_policy_gradients(const CausalLm& model, const Objective& objective, const UpdateOptions& options,
                                 int64_t tokens_per_batch, const ScoredRollouts& scored,
                                 std::span<const int64_t> indices, const TokenObserver& observe) {
  const Requirements needs = objective.requirements();
  const SelectedRollouts selected = select_rollouts(scored, indices);
  const std::vector<double> loss_weights =
      sequence_weights(objective.method.aggregation, selected.lengths(), objective.length_divisor, selected.prompts());
  const std::vector<PackedBatch> batches = pack(selected.sequences, tokens_per_batch, model.device());
  const bool whole_update = needs.scope == Scope::kBatch;
  const TokenDecision decided =
      whole_update ? decide_whole_update(model, objective, options.temperature, batches, selected) : TokenDecision{};
  int64_t first = 0;  // index of the batch's first target in the update
  for (const PackedBatch& batch : batches) {
    TokenInputs inputs = gather_token_inputs(batch, selected, needs);
    if (objective.centering == Centering::kExact) inputs.behavior.weights = token_weights(objective.method.region);
    const Tensor weights = repeat_per_target(batch, loss_weights);
    const auto coefficients = [&](const TokenStats& stats, int64_t begin, int64_t end) -> HeadCoefficients {
      const auto chunk = [&](const Tensor& x) { return x.narrow(0, begin, end - begin); };
      const LossInputs policy = add_statistics(inputs, stats, needs, begin);
      TokenDecision decision = whole_update ? slice(decided, first + begin, end - begin)
                                            : token_coefficients(objective.method.region, policy);
      Tensor kl;                           // to the reference
      if (objective.kl_coefficient > 0) {  // the KL term also applies to blocked tokens
        const Tensor reference_logp = chunk(inputs.reference_logp);
        decision.coefficient =
            decision.coefficient +
            reference_kl_coefficient(objective.kl_estimator, objective.kl_coefficient, policy.logp, reference_logp);
        decision.clamped =
            decision.clamped + reference_kl_clamp_count(objective.kl_estimator, policy.logp, reference_logp);
        kl = reference_kl(objective.kl_estimator, policy.logp, reference_logp);
      }
      const TokenUpdate tokens{batch, begin, stats, policy, decision, chunk(weights), kl};
      observe(tokens);
      HeadCoefficients result{.coefficient = decision.coefficient * tokens.weights, .entropy_coefficient = {}};
      if (objective.entropy_coefficient != 0)
        result.entropy_coefficient = tokens.weights * objective.entropy_coefficient;
      result.centering = center_scores(objective, policy, tokens.weights);
      return result;
    };
    // Whole-update decisions are already made, so the head may process any chunk of tokens.
    const Scope scope = whole_update ? Scope::kToken : needs.scope;
    accumulate_gradients(model, batch, options, scope, coefficients,
                         whole_update ? BehaviorRows{.kept = inputs.behavior.kept} : inputs.behavior);
    first += batch.target_count();
  }
}

}  // namespace keel
