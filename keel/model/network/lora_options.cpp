#include "keel/model/network/lora_options.h"

#include <cmath>

#include "keel/core/options/options.h"

namespace keel {

void LoraOptions::describe(OptionTable& table) {
  table.add("rank", rank, "Rank of the adapters that are trained in place of the weights; 0 trains the weights.",
            at_least(0).at_most(1 << 16));
  table.add("alpha", alpha, "The adapters' product is scaled by alpha / rank.", above(0).at_most(kMaxLoraAlpha));
  table.add("rank_stabilized", rank_stabilized, "Scale by alpha / sqrt(rank) instead (arXiv 2312.03732).");
  table.add(
      "dropout", dropout,
      "Share of the numbers that go into an adapter which training passes set to 0, others for every update, token "
      "and layer; the rest is divided by 1 - dropout, as by PEFT's lora_dropout. Sampling, evaluations, the "
      "reference and recomputed log-probabilities leave nothing out, so that pi/mu of an update has this noise in "
      "it.",
      at_least(0).below(1));
  table.add("target_modules", target_modules,
            "Linear layers that get an adapter: their names, or the ends of their names, as PEFT matches them; or "
            "all-linear.",
            not_empty());
  table.add(
      "adapter", adapter,
      "Folder of a PEFT adapter to go on from, or of a run or checkpoint that has one; its adapter_config.json then "
      "says rank, alpha and layers.");
}

double LoraOptions::scale() const {
  const double r = static_cast<double>(rank);
  return alpha / (rank_stabilized ? std::sqrt(r) : r);
}

}  // namespace keel
