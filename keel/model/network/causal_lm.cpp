#include "keel/model/network/causal_lm.h"

namespace keel {
namespace {

/// The products of a layer, one for each linear layer, with gradients.
class TrainedProducts : public LayerProducts {
 public:
  TrainedProducts(const ModelWeights& weights, size_t index, bool deterministic)
      : layer_(weights.layers()[index]),
        activation_(weights.config().activation),
        deterministic_(deterministic),
        index_(index) {}

  Heads attention_input(const Tensor& x, const Dropout& dropout) const override {
    return {product(0, x, dropout), product(1, x, dropout), product(2, x, dropout)};
  }
  Tensor attention_output(const Tensor& x, const Dropout& dropout) const override { return product(3, x, dropout); }
  Tensor mlp(const Tensor& x, const Dropout& dropout) const override {
    const Tensor up = product(5, x, dropout), gate = product(4, x, dropout);
    return product(6, gated(activation_, gate, up), dropout);
  }

 private:
  /// Of the layer's linear layers with this number, which also keys the dropout's noise.
  Tensor product(size_t number, const Tensor& x, Dropout dropout) const {
    const Linear* const linears[] = {&layer_.query, &layer_.key, &layer_.value, &layer_.output,
                                     &layer_.gate,  &layer_.up,  &layer_.down};
    dropout.layer = index_ * std::size(linears) + number;
    return (*linears[number])(x, deterministic_, dropout);
  }

  LayerWeights layer_;
  Activation activation_;
  bool deterministic_;
  size_t index_;
};

NetworkProducts trained_products(const ModelWeights& weights, bool deterministic) {
  NetworkProducts products;
  for (size_t i = 0; i < weights.layers().size(); ++i)
    products.push_back(std::make_shared<TrainedProducts>(weights, i, deterministic));
  return products;
}

}  // namespace

CausalLm::CausalLm(const ModelWeights& weights, const ExecutionOptions& execution)
    : Transformer(weights, execution, trained_products(weights, execution.bitwise)) {}

LmHead CausalLm::lm_head(double temperature) const {
  return LmHead(weights().head(),
                {.temperature = temperature, .softcap = config().logit_softcap, .bitwise = execution().bitwise});
}

}  // namespace keel
