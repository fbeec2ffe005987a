#pragma once

#include <filesystem>

#include "keel/core/tensor/tensor.h"
#include "keel/model/folder/model_folder.h"
#include "keel/model/formats/gguf/gguf_model.h"

namespace keel {

// Both functions write a Hugging Face folder: config.json, generation_config.json, model.safetensors (in float32,
// float16 or bfloat16) and the tokenizer files. The folder appears atomically; it must be new or empty.

void write_gguf_as_folder(const GgufModel& model, const std::filesystem::path& folder, at::ScalarType dtype);

void write_model_only(const ModelWeights& model, const Tokenizer& tokenizer, const Json& generation,
                      const WeightDtypes& dtypes, const std::filesystem::path& folder);

}  // namespace keel
