#include "keel/model/network/critic.h"

#include <ATen/ATen.h>

namespace keel {

Critic Critic::of(const CausalLm& policy, bool own_body) {
  Critic critic{std::nullopt, ValueHead::zero(policy.config().hidden_size, policy.device())};
  if (!own_body) return critic;
  const at::NoGradGuard no_grad;
  ModelConfig shape = policy.config();
  shape.tie_word_embeddings = true;  // so that no LM head is copied, kept and trained for nothing
  std::vector<NamedTensor> weights = policy.merged().parameters();
  std::erase_if(weights, [](const NamedTensor& weight) { return weight.name == "lm_head.weight"; });
  critic.body = CausalLm::from_tensors(shape, weights, policy.device(), "the critic's body");
  critic.body->compute_in(policy.compute_type());
  if (policy.recomputes_activations()) critic.body->recompute_activations();
  if (policy.bitwise()) critic.body->make_bitwise();  // as a resumed run's is
  return critic;
}

std::vector<NamedParameter> Critic::trainable() const {
  std::vector<NamedParameter> result = body ? body->trainable() : std::vector<NamedParameter>{};
  for (const NamedTensor& parameter : head.parameters()) result.push_back({parameter.name, parameter.value});
  return result;
}

}  // namespace keel
