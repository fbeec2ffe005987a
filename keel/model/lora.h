#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "keel/core/json.h"

namespace keel {

class CausalLm;
class OptionTable;

/// A low-rank adapter: which layers, and how wide; the section `lora` of a configuration.
struct LoraOptions {
  int64_t rank = 0;
  double alpha = 16;
  bool rank_stabilized = false;
  std::vector<std::string> target_modules = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                             "gate_proj", "up_proj", "down_proj"};
  std::string adapter = "";

  void describe(OptionTable& table);

  /// Whether an adapter is trained, instead of the whole network.
  bool used() const { return rank > 0 || !adapter.empty(); }

  /// alpha / rank, or alpha / sqrt(rank) when stabilised (arXiv 2312.03732).
  double scale() const;
};

/// The adapter_config.json of an adapter with these options, as PEFT writes it.
Json to_adapter_json(const LoraOptions& options);

/// adapter_config.json (as given) and adapter_model.safetensors in a folder, by PEFT's names.
void write_adapter(const std::filesystem::path& folder, const CausalLm& model, const Json& config);

/// Puts the adapter of a folder on the model (which has none yet) and returns its adapter_config.json. Missing, surplus
/// and misshapen tensors are errors (exit code 3).
Json read_adapter(const std::filesystem::path& folder, CausalLm& model);

}  // namespace keel
