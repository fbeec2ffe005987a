#pragma once

#include <filesystem>
#include <vector>

#include "keel/core/json.h"
#include "keel/model/network/model_weights.h"

namespace keel {

/// Writes adapter_config.json and adapter_model.safetensors, with PEFT tensor names.
void write_adapter(const std::filesystem::path& folder, const std::vector<NamedTensor>& adapter, const Json& config);

/// Adds the adapter of a folder to a model without adapter and returns its adapter_config.json. Fails (exit code 3) for
/// missing, extra and misshapen tensors.
Json read_adapter(const std::filesystem::path& folder, ModelWeights& model);

}  // namespace keel
