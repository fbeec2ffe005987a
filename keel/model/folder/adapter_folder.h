#pragma once

#include <filesystem>
#include <vector>

#include "keel/core/json.h"
#include "keel/model/network/model_weights.h"

namespace keel {

/// adapter_config.json (as given) and adapter_model.safetensors in a folder, by PEFT's names.
void write_adapter(const std::filesystem::path& folder, const std::vector<NamedTensor>& adapter, const Json& config);

/// Puts the adapter of a folder on the model (which has none yet) and returns its adapter_config.json. Missing, surplus
/// and misshapen tensors are errors (exit code 3).
Json read_adapter(const std::filesystem::path& folder, ModelWeights& model);

}  // namespace keel
