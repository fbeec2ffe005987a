#include "keel/model/network/critic.h"

#include <ATen/ATen.h>

namespace keel {

Critic Critic::create(const ModelWeights& policy, const MasterWeights& masters, bool own_body) {
  Critic critic{std::nullopt, ValueHead::zero(policy.config().hidden_size, policy.device())};
  if (!own_body) return critic;
  const at::NoGradGuard no_grad;
  ModelConfig shape = policy.config();
  shape.tie_word_embeddings = true;  // avoids copying and training an unused LM head
  std::vector<NamedTensor> weights = masters.value_of(policy.merged(masters).network());
  std::erase_if(weights, [](const NamedTensor& weight) { return weight.name == "lm_head.weight"; });
  critic.body = ModelWeights::from_tensors(shape, weights, policy.device(), "the critic's body");
  return critic;
}

MasterWeights Critic::match_compute_type(const CausalLm& policy) {
  MasterWeights masters(weights());
  if (!body) return masters;
  ModelWeights copy = body->weights();
  copy.set_compute_type(policy.compute_type());
  body = CausalLm(copy, policy.execution());
  return masters;
}

std::vector<NamedWeight> Critic::weights() const {
  std::vector<NamedWeight> result = body ? body->weights().network() : std::vector<NamedWeight>{};
  for (const NamedWeight& weight : head.weights()) result.push_back(weight);
  return result;
}

Critic Critic::with_replaced(const ModelWeights::Replacement& replacement) const {
  const std::vector<NamedWeight> head_weights = head.weights();
  Critic copy{std::nullopt, {replacement(head_weights[0].weight), replacement(head_weights[1].weight)}};
  if (body) copy.body = CausalLm(body->weights().with_replaced(replacement));
  return copy;
}

}  // namespace keel
