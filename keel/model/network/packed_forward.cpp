#include "keel/model/network/packed_forward.h"

#include "keel/ops/packed_block_attention.h"

namespace keel {

Tensor packed_hidden_states(const CausalLm& model, const Tensor& tokens, const Tensor& positions,
                            const std::vector<Segment>& segments) {
  const PackedAttention attention(segments, tokens.size(0), model.config().sliding_window, model.device());
  if (model.bitwise()) {
    const PackedBlockAttention by_blocks(segments, tokens.size(0), attention);
    return model.forward(tokens, positions, [&](int64_t, const AttentionRule& rule, const Heads& heads) {
      const Heads turned = heads.turned();
      return by_blocks(rule, turned.query, turned.key, turned.value);
    });
  }
  return model.forward(tokens, positions, [&](int64_t, const AttentionRule& rule, const Heads& heads) {
    const Heads turned = heads.turned();
    return attention(rule, turned.query, turned.key, turned.value);
  });
}

}  // namespace keel
