#include "keel/model/network/packed_forward.h"

#include <memory>

#include "keel/ops/packed_flash_attention.h"
#include "keel/ops/packed_paged_attention.h"

namespace keel {
namespace {

/// Wraps an attention object so that a backward pass can call it again.
template <class Attention>
PackedAttentionFunction shared_attention(Attention attention) {
  return [shared = std::make_shared<const Attention>(std::move(attention))](const auto&... heads) {
    return (*shared)(heads...);
  };
}

}  // namespace

bool uses_flash_attention(const Transformer& model) {
  const ModelConfig& config = model.config();
  return PackedFlashAttention::supports({.softcap = config.attention_softcap, .window = config.sliding_window},
                                        model.device(), model.compute_type(), config.head_dim);
}

Tensor packed_hidden_states(const Transformer& model, const Tensor& tokens, const Tensor& positions,
                            const std::vector<Segment>& segments, const Dropout& dropout) {
  const int64_t count = tokens.size(0);
  PackedAttentionFunction attend =
      uses_flash_attention(model)
          ? shared_attention(PackedFlashAttention(segments, model.device()))
          : shared_attention(PackedAttention(segments, count, model.config().sliding_window, model.device()));
  if (model.execution().bitwise)
    attend = shared_attention(PackedPagedAttention(segments, count, model.device(), attend));
  const auto attend_packed = [attend](int64_t, const AttentionConfig& attention, const Heads& heads) {
    const Heads rotated = heads.rotated();
    return attend(attention, rotated.query, rotated.key, rotated.value);
  };
  return model.forward({tokens, positions, attend_packed, dropout});
}

}  // namespace keel
