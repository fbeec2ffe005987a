#include "keel/model/network/sampling_model.h"

#include "keel/ops/lm_head.h"

namespace keel {
namespace {

bool packs_weights(const ModelWeights& weights) {
  return weights.device().is_cpu() && weights.compute_type() == at::kFloat;
}

/// The matmuls of a layer in sampling: linear layers with the same input are fused.
class SamplingMatmuls : public LayerMatmuls {
 public:
  SamplingMatmuls(const ModelWeights& weights, const LayerWeights& layer, const SamplingMatmulOptions& options,
                  PackedWeightMemory& memory)
      : activation_(weights.config().activation),
        queries_(weights.config().num_attention_heads * weights.config().head_dim),
        keys_(weights.config().num_key_value_heads * weights.config().head_dim),
        query_key_value_({&layer.query, &layer.key, &layer.value}, options, memory),
        output_({&layer.output}, options, memory),
        gate_up_({&layer.gate, &layer.up}, options, memory),
        down_({&layer.down}, options, memory) {}

  Heads attention_input(const Tensor& x, const Dropout&) const override {
    const Tensor all = query_key_value_(x);
    return {all.narrow(1, 0, queries_), all.narrow(1, queries_, keys_), all.narrow(1, queries_ + keys_, keys_)};
  }
  Tensor attention_output(const Tensor& x, const Dropout&) const override { return output_(x); }
  Tensor mlp(const Tensor& x, const Dropout&) const override { return down_(gate_up_.gated(activation_, x)); }

 private:
  Activation activation_;
  int64_t queries_, keys_;  // output widths
  FusedLinear query_key_value_, output_, gate_up_, down_;
};

NetworkMatmuls make_sampling_matmuls(const ModelWeights& weights, const SamplingMatmulOptions& options,
                                     PackedWeightMemory& memory) {
  NetworkMatmuls matmuls;
  for (const LayerWeights& layer : weights.layers())
    matmuls.push_back(std::make_shared<SamplingMatmuls>(weights, layer, options, memory));
  return matmuls;
}

}  // namespace

SamplerWeights SamplerWeights::snapshot(bool with_masters) const {
  ModelWeights copy = weights.with_replaced_trainable([](const Weight& weight) { return weight.value().clone(); });
  MasterWeights copied = with_masters ? masters.clone_for(copy.trainable()) : MasterWeights(copy.trainable());
  return {std::move(copy), std::move(copied), execution};
}

SamplingModel::SamplingModel(const SamplerWeights& from, const Rounding& rounding)
    : SamplingModel(rounding.weights || from.merges_adapter() ? from.weights.merged(from.masters, rounding.weights)
                                                              : from.weights,
                    from.execution, rounding, PackedWeightMemory()) {}

SamplingModel::SamplingModel(const ModelWeights& weights, const ExecutionOptions& execution, const Rounding& rounding,
                             PackedWeightMemory memory)
    : Transformer(
          weights, execution,
          make_sampling_matmuls(weights, {execution.bitwise, rounding.activations, packs_weights(weights)}, memory)),
      round_keys_and_values_(rounding.keys_and_values) {
  if (packs_weights(weights)) packed_head_ = PackedWeight({weights.head().value()}, memory);
}

Tensor SamplingModel::forward(const ForwardInput& input) const {
  if (round_keys_and_values_ == nullptr) return Transformer::forward(input);
  const auto rounded = [&](int64_t layer, const AttentionConfig& attention, const Heads& heads) {
    const Heads rotated = heads.rotated();
    return input.attend(layer, attention,
                        {rotated.query, round_keys_and_values_(rotated.key), round_keys_and_values_(rotated.value)});
  };
  return Transformer::forward({input.tokens, input.positions, rounded, input.dropout});
}

Tensor SamplingModel::logits(const Tensor& hidden) const {
  const Tensor raw =
      packed_head_.defined() ? packed_head_(hidden) : weights().head().linear_to_float32(hidden, execution().bitwise);
  return apply_softcap(raw, config().logit_softcap);
}

}  // namespace keel
