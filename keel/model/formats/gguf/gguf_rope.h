#pragma once

#include <span>
#include <string>

#include "keel/core/json.h"
#include "keel/model/formats/gguf/gguf_header.h"

namespace keel {

/// Converts the keys `ARCHITECTURE.rope.` to "rope_scaling" of config.json, as llama.cpp interprets them; null: none.
/// Fails (kBadInput) for unknown keys, since ignoring them could change the rotary embedding.
Json gguf_rope_scaling(const GgufMetadata& metadata, const std::string& architecture);

/// Recovers the "rope_scaling" of Llama 3 for config.json from the divisors of the `head_dim / 2` frequencies in GGUF
/// files. Null if all are 1. Fails (kBadInput, starting with `location`) if no scaling gives these divisors.
/// `original_context` is the context length before scaling, which the divisors do not determine.
Json llama3_rope_scaling(std::span<const float> factors, double rope_theta, double original_context,
                         const std::string& location);

}  // namespace keel
