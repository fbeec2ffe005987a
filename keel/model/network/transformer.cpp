#include "keel/model/network/transformer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "keel/core/error.h"
#include "keel/model/network/rope.h"
#include "keel/ops/deterministic_linear.h"

namespace keel {
namespace {

/// A number as a tensor of this type holds it.
double number_in(double number, at::ScalarType type) { return at::scalar_tensor(number, type).item<double>(); }

}  // namespace

/// A forward pass, which its layers are computed in once or, for a backward pass, again.
struct Transformer::Pass {
  ForwardInput input;
  RotaryAngles angles, sliding_angles;
};

Transformer::Transformer(ModelWeights weights, const ExecutionOptions& execution, NetworkProducts products)
    : weights_(std::move(weights)), execution_(execution), products_(std::move(products)) {
  if (execution.bitwise && !has_deterministic_gemm(device(), compute_type()))
    fail(ExitCode::kBadConfiguration, "rollout.bitwise is true, but on a ", device().is_cpu() ? "CPU" : "GPU",
         " sampler and trainer have a common order of additions only in ",
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
  const LayerProducts& products = *products_[index];
  const int64_t width = config().head_dim;
  const auto in_heads = [&](const Tensor& rows) { return rows.view({x.size(0), -1, width}); };
  const auto normed = [&](const Tensor& rows, const Weight& head_norm) {
    return head_norm.defined() ? norm(rows.reshape({-1, width}), head_norm).view(rows.sizes()) : rows;
  };
  const bool slides = config().slides(index);
  const Heads rows = products.attention_input(x, pass.input.dropout);
  const Heads heads{normed(in_heads(rows.query), layer.query_norm), normed(in_heads(rows.key), layer.key_norm),
                    in_heads(rows.value), slides ? pass.sliding_angles : pass.angles};
  const AttentionConfig attention{config().score_scale(), config().attention_softcap,
                                  slides ? config().sliding_window : 0};
  const Tensor attended = pass.input.attend(index, attention, heads);
  return products.attention_output(attended.reshape({-1, config().num_attention_heads * width}), pass.input.dropout);
}

Residual Transformer::layer(int64_t index, const Residual& in, const Pass& pass) const {
  const LayerWeights& layer = weights_.layers()[index];
  // The output of a part is added to the sum, whose norm the next part reads.
  const auto add = [&](const Residual& to, const Tensor& out, const Weight& after, const Weight& next) -> Residual {
    const NormedSum both =
        add_and_norm(to.sum, after.defined() ? norm(out, after) : out, norm_weight(next), config().rms_norm_eps);
    return {both.sum, both.normed};
  };
  const Residual attended = add(in, attention(index, in.normed, pass), layer.attention_norm, layer.mlp_norm);
  const bool last = index + 1 == config().num_hidden_layers;
  return add(attended, products_[index]->mlp(attended.normed, pass.input.dropout), layer.output_norm,
             last ? weights_.final_norm() : weights_.layers()[index + 1].input_norm);
}

Tensor Transformer::forward(const ForwardInput& input) const {
  Pass pass{input, rotary_angles(input.positions, frequencies_, config().rope.attention_factor), {}};
  if (config().sliding_rope)
    pass.sliding_angles = rotary_angles(input.positions, sliding_frequencies_, config().sliding_rope->attention_factor);
  else
    pass.sliding_angles = pass.angles;
  Tensor x = weights_.embedding().rows(input.tokens, config().padding_row());  // [N, H]
  if (config().scaled_embedding)
    x = x * number_in(std::sqrt(static_cast<double>(config().hidden_size)), compute_type());
  Tensor y = norm(x, weights_.layers().empty() ? weights_.final_norm() : weights_.layers()[0].input_norm);
  Residual stream{std::move(x), std::move(y)};
  const bool again = execution_.recompute_activations && at::GradMode::is_enabled();
  const auto kept = again ? std::make_shared<const std::pair<Transformer, Pass>>(*this, pass) : nullptr;
  for (int64_t i = 0; i < config().num_hidden_layers; ++i)
    stream = again ? recomputed([=](const Residual& in) { return kept->first.layer(i, in, kept->second); }, stream)
                   : layer(i, stream, pass);
  return stream.normed;
}

}  // namespace keel
