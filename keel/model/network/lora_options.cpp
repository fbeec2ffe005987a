#include "keel/model/network/lora_options.h"

#include <cmath>

#include "keel/core/options/options.h"

namespace keel {

void LoraOptions::describe(OptionTable& table) {
  table.add("rank", rank, "LoRA rank; 0 trains all weights instead of an adapter.", at_least(0).at_most(1 << 16));
  table.add("alpha", alpha, "LoRA alpha: the adapter output is scaled by alpha / rank.",
            above(0).at_most(kMaxLoraAlpha));
  table.add("rank_stabilized", rank_stabilized, "Scale by alpha / sqrt(rank) instead (arXiv 2312.03732).");
  table.add("dropout", dropout,
            "Dropout probability on adapter inputs in training passes (PEFT's lora_dropout). Sampling, evaluations, "
            "the reference and recomputed log-probabilities have no dropout, so pi/mu contains its noise.",
            at_least(0).below(1));
  table.add("target_modules", target_modules,
            "Linear layers that get an adapter: names or name suffixes, as in PEFT, or all-linear.", not_empty());
  table.add("adapter", adapter,
            "Folder of a PEFT adapter to continue from, or of a run or checkpoint with an adapter. Its "
            "adapter_config.json then sets rank, alpha and layers.");
}

double LoraOptions::scale() const {
  const double r = static_cast<double>(rank);
  return alpha / (rank_stabilized ? std::sqrt(r) : r);
}

}  // namespace keel
