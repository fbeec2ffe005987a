#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace keel {

class OptionTable;

/// Of either sign. More is a slip: what a layer puts out times that is beyond float32.
inline constexpr double kMaxLoraAlpha = 1e6;

/// A low-rank adapter: which layers, and how wide; the section `lora` of a configuration.
struct LoraOptions {
  int64_t rank = 0;
  double alpha = 16;
  bool rank_stabilized = false;
  double dropout = 0;
  std::vector<std::string> target_modules = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                             "gate_proj", "up_proj", "down_proj"};
  std::string adapter = "";

  void describe(OptionTable& table);

  /// Whether an adapter is trained, instead of the whole network.
  bool used() const { return rank > 0 || !adapter.empty(); }

  /// alpha / rank, or alpha / sqrt(rank) when stabilised (arXiv 2312.03732).
  double scale() const;
};

}  // namespace keel
