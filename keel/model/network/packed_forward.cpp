#include "keel/model/network/packed_forward.h"

#include <memory>

#include "keel/ops/packed_block_attention.h"
#include "keel/ops/packed_flash_attention.h"

namespace keel {

bool attends_by_flash(const CausalLm& model) {
  const ModelConfig& config = model.config();
  return PackedFlashAttention::takes({.softcap = config.attention_softcap, .window = config.sliding_window},
                                     model.device(), model.compute_type(), config.head_dim);
}

Tensor packed_hidden_states(const CausalLm& model, const Tensor& tokens, const Tensor& positions,
                            const std::vector<Segment>& segments) {
  const auto with = [&](const auto& attention) {  // shared: a backward pass may look at it again
    return model.forward(tokens, positions, [attention](int64_t, const AttentionRule& rule, const Heads& heads) {
      const Heads turned = heads.turned();
      return (*attention)(rule, turned.query, turned.key, turned.value);
    });
  };
  if (attends_by_flash(model)) return with(std::make_shared<const PackedFlashAttention>(segments, model.device()));
  const auto plain =
      std::make_shared<const PackedAttention>(segments, tokens.size(0), model.config().sliding_window, model.device());
  if (!model.bitwise()) return with(plain);
  return with(std::make_shared<const PackedBlockAttention>(segments, tokens.size(0), plain));
}

}  // namespace keel
