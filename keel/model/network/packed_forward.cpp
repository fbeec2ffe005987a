#include "keel/model/network/packed_forward.h"

#include <memory>

#include "keel/ops/packed_block_attention.h"
#include "keel/ops/packed_flash_attention.h"

namespace keel {
namespace {

/// What a backward pass may look at again.
template <class Attention>
PackedAttend kept(Attention attention) {
  return [shared = std::make_shared<const Attention>(std::move(attention))](const auto&... heads) {
    return (*shared)(heads...);
  };
}

}  // namespace

bool uses_flash_attention(const Transformer& model) {
  const ModelConfig& config = model.config();
  return PackedFlashAttention::takes({.softcap = config.attention_softcap, .window = config.sliding_window},
                                     model.device(), model.compute_type(), config.head_dim);
}

Tensor packed_hidden_states(const Transformer& model, const Tensor& tokens, const Tensor& positions,
                            const std::vector<Segment>& segments, const Dropout& dropout) {
  const int64_t count = tokens.size(0);
  PackedAttend attend = uses_flash_attention(model)
                            ? kept(PackedFlashAttention(segments, model.device()))
                            : kept(PackedAttention(segments, count, model.config().sliding_window, model.device()));
  if (model.execution().bitwise) attend = kept(PackedBlockAttention(segments, count, model.device(), attend));
  const auto attend_packed = [attend](int64_t, const AttentionRule& rule, const Heads& heads) {
    const Heads turned = heads.turned();
    return attend(rule, turned.query, turned.key, turned.value);
  };
  return model.forward({tokens, positions, attend_packed, dropout});
}

}  // namespace keel
