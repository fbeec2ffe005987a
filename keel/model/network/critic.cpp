#include "keel/model/network/critic.h"

#include <ATen/ATen.h>

namespace keel {

Critic Critic::of(const ModelWeights& policy, const MasterWeights& masters, bool own_body) {
  Critic critic{std::nullopt, ValueHead::zero(policy.config().hidden_size, policy.device())};
  if (!own_body) return critic;
  const at::NoGradGuard no_grad;
  ModelConfig shape = policy.config();
  shape.tie_word_embeddings = true;  // so that no LM head is copied and trained for nothing
  std::vector<NamedTensor> weights = masters.of(policy.merged(masters).network());
  std::erase_if(weights, [](const NamedTensor& weight) { return weight.name == "lm_head.weight"; });
  critic.body = ModelWeights::from_tensors(shape, weights, policy.device(), "the critic's body");
  return critic;
}

MasterWeights Critic::compute_as(const CausalLm& policy) {
  MasterWeights masters(weights());
  if (!body) return masters;
  ModelWeights own = body->weights();
  own.compute_in(policy.compute_type());
  body = CausalLm(own, policy.execution());
  return masters;
}

std::vector<NamedWeight> Critic::weights() const {
  std::vector<NamedWeight> result = body ? body->weights().network() : std::vector<NamedWeight>{};
  for (const NamedWeight& weight : head.weights()) result.push_back(weight);
  return result;
}

Critic Critic::with_all(const ModelWeights::Replacement& replacement) const {
  const std::vector<NamedWeight> of_head = head.weights();
  Critic copy{std::nullopt, {replacement(of_head[0].weight), replacement(of_head[1].weight)}};
  if (body) copy.body = CausalLm(body->weights().with_all(replacement));
  return copy;
}

}  // namespace keel
