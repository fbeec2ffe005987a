#include "keel/model/network/packed_forward.h"

#include "keel/ops/packed_block_attention.h"

namespace keel {

Tensor packed_hidden_states(const CausalLm& model, const Tensor& tokens, const Tensor& positions,
                            const std::vector<Segment>& segments) {
  const PackedAttention attention(segments, tokens.size(0), model.config().sliding_window, model.device());
  if (model.bitwise()) {
    const PackedBlockAttention by_blocks(segments, tokens.size(0), attention);
    return model.forward(tokens, positions,
                         [&](int64_t, const AttentionRule& rule, const Tensor& query, const Tensor& key,
                             const Tensor& value) { return by_blocks(rule, query, key, value); });
  }
  return model.forward(tokens, positions,
                       [&](int64_t, const AttentionRule& rule, const Tensor& query, const Tensor& key,
                           const Tensor& value) { return attention(rule, query, key, value); });
}

}  // namespace keel
