#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace keel {

class OptionTable;

/// Maximum |lora.alpha|: larger values overflow float32 activations.
inline constexpr double kMaxLoraAlpha = 1e6;

/// The configuration section `lora`: the layers and the rank of the adapter.
struct LoraOptions {
  int64_t rank = 0;
  double alpha = 16;
  bool rank_stabilized = false;
  double dropout = 0;
  std::vector<std::string> target_modules = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                             "gate_proj", "up_proj", "down_proj"};
  std::string adapter = "";

  void describe(OptionTable& table);

  bool used() const { return rank > 0 || !adapter.empty(); }

  /// alpha / rank, or alpha / sqrt(rank) when stabilised (arXiv 2312.03732).
  double scale() const;
};

}  // namespace keel
