#include "keel/model/network/master_weights.h"

#include <ATen/ATen.h>

namespace keel {

MasterWeights::MasterWeights(std::vector<NamedWeight> weights) : weights_(std::move(weights)) {
  for (const NamedWeight& weight : weights_) masters_.push_back(weight.weight.value());
}

std::vector<NamedTensor> MasterWeights::tensors() const { return value_of(weights_); }

const Tensor& MasterWeights::value_of(const Weight& weight) const {
  for (size_t i = 0; i < weights_.size(); ++i)
    if (weights_[i].weight.is_same(weight)) return masters_[i];
  return weight.value();
}

std::vector<NamedTensor> MasterWeights::value_of(const std::vector<NamedWeight>& weights) const {
  std::vector<NamedTensor> result;
  for (const NamedWeight& weight : weights) result.push_back({weight.name, value_of(weight.weight)});
  return result;
}

void MasterWeights::update_weights() const {
  const at::NoGradGuard no_grad;
  std::vector<Tensor> masters, rounded;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i].weight.value().is_same(masters_[i])) continue;
    masters.push_back(masters_[i]);
    rounded.push_back(weights_[i].weight.value());
  }
  if (!masters.empty()) at::_foreach_copy_(rounded, masters);
}

MasterWeights MasterWeights::clone_for(std::vector<NamedWeight> copies) const {
  MasterWeights result(std::move(copies));
  for (size_t i = 0; i < weights_.size(); ++i)
    if (!masters_[i].is_same(weights_[i].weight.value())) result.masters_[i] = masters_[i].clone();
  return result;
}

}  // namespace keel
