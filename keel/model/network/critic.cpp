#include "keel/model/network/critic.h"

#include <ATen/ATen.h>

namespace keel {

Critic Critic::create(const ModelWeights& policy, const MasterWeights& masters, bool own_body) {
  Critic critic{std::nullopt, ValueHead::zero(policy.config().hidden_size, policy.device())};
  if (!own_body) return critic;
  const at::NoGradGuard no_grad;
  ModelConfig shape = policy.config();
  shape.tie_word_embeddings = true;  // so that no LM head is copied and trained for nothing
  std::vector<NamedTensor> weights = masters.value_of(policy.merged(masters).network());
  std::erase_if(weights, [](const NamedTensor& weight) { return weight.name == "lm_head.weight"; });
  critic.body = ModelWeights::from_tensors(shape, weights, policy.device(), "the critic's body");
  return critic;
}

MasterWeights Critic::match_compute_type(const CausalLm& policy) {
  MasterWeights masters(weights());
  if (!body) return masters;
  ModelWeights own = body->weights();
  own.set_compute_type(policy.compute_type());
  body = CausalLm(own, policy.execution());
  return masters;
}

std::vector<NamedWeight> Critic::weights() const {
  std::vector<NamedWeight> result = body ? body->weights().network() : std::vector<NamedWeight>{};
  for (const NamedWeight& weight : head.weights()) result.push_back(weight);
  return result;
}

Critic Critic::with_replaced(const ModelWeights::Replacement& replacement) const {
  const std::vector<NamedWeight> of_head = head.weights();
  Critic copy{std::nullopt, {replacement(of_head[0].weight), replacement(of_head[1].weight)}};
  if (body) copy.body = CausalLm(body->weights().with_replaced(replacement));
  return copy;
}

}  // namespace keel
