#pragma once

#include "keel/model/network/transformer.h"
#include "keel/ops/lm_head.h"

namespace keel {

/// A causal language model for training. Its LM head is separate, so that the logits are never stored in full.
class CausalLm : public Transformer {
 public:
  CausalLm(const ModelWeights& weights, const ExecutionOptions& execution = {});

  /// The LM head at a sampling temperature.
  LmHead lm_head(double temperature) const;
};

}  // namespace keel
