#include "keel/model/network/causal_lm.h"

namespace keel {
namespace {

/// The matmuls of a layer in training: one per linear layer, with gradients.
class TrainingMatmuls : public LayerMatmuls {
 public:
  TrainingMatmuls(const ModelWeights& weights, size_t index, bool deterministic)
      : layer_(weights.layers()[index]),
        activation_(weights.config().activation),
        deterministic_(deterministic),
        index_(index) {}

  Heads attention_input(const Tensor& x, const Dropout& dropout) const override {
    return {linear(kQuery, x, dropout), linear(kKey, x, dropout), linear(kValue, x, dropout)};
  }
  Tensor attention_output(const Tensor& x, const Dropout& dropout) const override {
    return linear(kOutput, x, dropout);
  }
  Tensor mlp(const Tensor& x, const Dropout& dropout) const override {
    const Tensor up = linear(kUp, x, dropout), gate = linear(kGate, x, dropout);
    return linear(kDown, gated(activation_, gate, up), dropout);
  }

 private:
  enum LinearIndex : size_t { kQuery, kKey, kValue, kOutput, kGate, kUp, kDown };

  /// Applies a linear layer. Its index also selects the dropout mask.
  Tensor linear(LinearIndex linear_index, const Tensor& x, Dropout dropout) const {
    const Linear* const linears[] = {&layer_.query, &layer_.key, &layer_.value, &layer_.output,
                                     &layer_.gate,  &layer_.up,  &layer_.down};
    dropout.linear_layer = index_ * std::size(linears) + linear_index;
    return (*linears[linear_index])(x, deterministic_, dropout);
  }

  LayerWeights layer_;
  Activation activation_;
  bool deterministic_;
  size_t index_;
};

NetworkMatmuls make_training_matmuls(const ModelWeights& weights, bool deterministic) {
  NetworkMatmuls matmuls;
  for (size_t i = 0; i < weights.layers().size(); ++i)
    matmuls.push_back(std::make_shared<TrainingMatmuls>(weights, i, deterministic));
  return matmuls;
}

}  // namespace

CausalLm::CausalLm(const ModelWeights& weights, const ExecutionOptions& execution)
    : Transformer(weights, execution, make_training_matmuls(weights, execution.bitwise)) {}

LmHead CausalLm::lm_head(double temperature) const {
  return LmHead(weights().head(),
                {.temperature = temperature, .softcap = config().logit_softcap, .bitwise = execution().bitwise});
}

}  // namespace keel
