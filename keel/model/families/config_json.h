#pragma once

#include <optional>
#include <string>

#include "keel/core/json.h"
#include "keel/core/tensor/tensor.h"
#include "keel/model/network/model_config.h"

namespace keel {

/// Returns the original config.json with dtype set to `chosen_dtype`, if given. For a new model it returns the
/// config.json of a Llama, with the bos_token_id and eos_token_id of `special_ids`.
Json to_config_json(const ModelConfig& config, const Json& special_ids, std::optional<at::ScalarType> chosen_dtype);

/// Parses a config.json; errors (exit code 3) start with `location`.
ModelConfig from_config_json(const Json& json, const std::string& location);

}  // namespace keel
