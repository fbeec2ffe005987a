#include "keel/model/network/transformer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "keel/core/error.h"
#include "keel/model/network/rope.h"
#include "keel/ops/deterministic_linear.h"

namespace keel {
namespace {

/// Rounds a number to a tensor type.
double round_to(double number, at::ScalarType type) { return at::scalar_tensor(number, type).item<double>(); }

}  // namespace

/// The inputs of the layers in a forward pass, also when a backward pass recomputes them.
struct Transformer::Pass {
  ForwardInput input;
  RotaryAngles angles, sliding_angles;
};

Transformer::Transformer(ModelWeights weights, const ExecutionOptions& execution, NetworkMatmuls matmuls)
    : weights_(std::move(weights)), execution_(execution), matmuls_(std::move(matmuls)) {
  if (execution.bitwise && !has_deterministic_gemm(device(), compute_type()))
    fail(ExitCode::kBadConfiguration, "rollout.bitwise is true, but on a ", device().is_cpu() ? "CPU" : "GPU",
         " sampler and trainer sum in the same order only in ",
         device().is_cpu() ? "float32: set run.precision=float32" : "bf16 and fp16: set run.precision=bf16",
         ", or rollout.bitwise=false");
  frequencies_ = inverse_frequencies(config().rope, config().head_dim).to(device());
  if (config().sliding_rope)
    sliding_frequencies_ = inverse_frequencies(*config().sliding_rope, config().head_dim).to(device());
}

Tensor Transformer::norm_weight(const Weight& weight) const {
  const Tensor factors = weight.forward();
  return config().norm_plus_one ? factors.to(at::kFloat) + 1 : factors;
}

Tensor Transformer::norm(const Tensor& x, const Weight& weight) const {
  return rms_norm(x, norm_weight(weight), config().rms_norm_eps);
}

Tensor Transformer::attention(int64_t index, const Tensor& x, const Pass& pass) const {
  const LayerWeights& layer = weights_.layers()[index];
  const LayerMatmuls& matmuls = *matmuls_[index];
  const int64_t width = config().head_dim;
  const auto split_heads = [&](const Tensor& states) { return states.view({x.size(0), -1, width}); };
  const auto normed = [&](const Tensor& heads, const Weight& head_norm) {
    return head_norm.defined() ? norm(heads.reshape({-1, width}), head_norm).view(heads.sizes()) : heads;
  };
  const bool sliding = config().is_sliding(index);
  const Heads projected = matmuls.attention_input(x, pass.input.dropout);
  const Heads heads{normed(split_heads(projected.query), layer.query_norm),
                    normed(split_heads(projected.key), layer.key_norm), split_heads(projected.value),
                    sliding ? pass.sliding_angles : pass.angles};
  const AttentionConfig attention{config().score_scale(), config().attention_softcap,
                                  sliding ? config().sliding_window : 0};
  const Tensor attended = pass.input.attend(index, attention, heads);
  return matmuls.attention_output(attended.reshape({-1, config().num_attention_heads * width}), pass.input.dropout);
}

Residual Transformer::layer(int64_t index, const Residual& in, const Pass& pass) const {
  const LayerWeights& layer = weights_.layers()[index];
  // Adds the output of attention or MLP to the residual sum and normalises the sum for the next one.
  const auto add = [&](const Residual& stream, const Tensor& out, const Weight& post_norm,
                       const Weight& next_norm) -> Residual {
    const NormedSum result = add_and_norm(stream.sum, post_norm.defined() ? norm(out, post_norm) : out,
                                          norm_weight(next_norm), config().rms_norm_eps);
    return {result.sum, result.normed};
  };
  const Residual attended = add(in, attention(index, in.normed, pass), layer.post_attention_norm, layer.pre_mlp_norm);
  const bool last = index + 1 == config().num_hidden_layers;
  return add(attended, matmuls_[index]->mlp(attended.normed, pass.input.dropout), layer.post_mlp_norm,
             last ? weights_.final_norm() : weights_.layers()[index + 1].input_norm);
}

Tensor Transformer::forward(const ForwardInput& input) const {
  Pass pass{input, rotary_angles(input.positions, frequencies_, config().rope.attention_factor), {}};
  if (config().sliding_rope)
    pass.sliding_angles = rotary_angles(input.positions, sliding_frequencies_, config().sliding_rope->attention_factor);
  else
    pass.sliding_angles = pass.angles;
  Tensor x = weights_.embedding().embed(input.tokens, config().padding_row());  // [N, H]
  if (config().scaled_embedding) x = x * round_to(std::sqrt(static_cast<double>(config().hidden_size)), compute_type());
  Tensor normed = norm(x, weights_.layers().empty() ? weights_.final_norm() : weights_.layers()[0].input_norm);
  Residual stream{std::move(x), std::move(normed)};
  const bool recompute = execution_.recompute_activations && at::GradMode::is_enabled();
  // Only the Transformer part of a CausalLm is copied; layer() needs no more.
  const auto state = recompute ? std::make_shared<const std::pair<Transformer, Pass>>(*this, pass) : nullptr;
  for (int64_t i = 0; i < config().num_hidden_layers; ++i)
    stream = recompute ? checkpoint_layer([=](const Residual& in) { return state->first.layer(i, in, state->second); },
                                          stream)
                       : layer(i, stream, pass);
  return stream.normed;
}

}  // namespace keel
