#pragma once

#include <span>
#include <string>

#include "keel/core/json.h"
#include "keel/model/formats/gguf/gguf_header.h"

namespace keel {

/// The keys `ARCHITECTURE.rope.` of a file as config.json's "rope_scaling", read as llama.cpp reads them; null: none. A
/// key that is not known is an Error (kBadInput) that names it: what turns queries and keys is never left out.
Json gguf_rope_scaling(const GgufMetadata& metadata, const std::string& architecture);

/// Llama 3's rope scaling as config.json has it ("rope_scaling"), found back from what GGUF files have in its place:
/// the number by which each frequency is divided, for `head_dim / 2` frequencies. Null where all are 1; an Error
/// (kBadInput, beginning with `place`) where no such scaling gives these numbers. `original_context` is the length the
/// model was trained for before scaling; only its product with the other numbers is in the factors.
Json llama3_rope_scaling(std::span<const float> factors, double rope_theta, double original_context,
                         const std::string& place);

}  // namespace keel
