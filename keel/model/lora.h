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

/// adapter_config.json as PEFT writes and reads it.
Json to_adapter_json(const LoraOptions& options, const std::string& base_model);

/// Reads one; what would change the result and is not understood (DoRA, modules_to_save, biases, ...) is refused.
LoraOptions from_adapter_json(const Json& json, const std::string& place);

/// adapter_config.json and adapter_model.safetensors in a folder, by PEFT's names.
void write_adapter(const std::filesystem::path& folder, const CausalLm& model, const LoraOptions& options,
                   const std::string& base_model);

/// Puts the adapter of a folder on the model (which has none yet) and returns its options. Missing, surplus and
/// misshapen tensors are errors (exit code 3).
LoraOptions read_adapter(const std::filesystem::path& folder, CausalLm& model);

}  // namespace keel
