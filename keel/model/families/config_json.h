#pragma once

#include <optional>
#include <string>

#include "keel/core/json.h"
#include "keel/core/tensor/tensor.h"
#include "keel/model/network/model_config.h"

namespace keel {

/// config.json as it was read; a key that says the weights' type is corrected where one was chosen for them. Of a model
/// made from nothing: a Llama's, with `special`: bos_token_id and eos_token_id where they exist.
Json to_config_json(const ModelConfig& config, const Json& special, std::optional<at::ScalarType> chosen_dtype);

/// Reads a config.json; `place` names the file in errors (exit code 3).
ModelConfig from_config_json(const Json& json, const std::string& place);

}  // namespace keel
