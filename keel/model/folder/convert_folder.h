#pragma once

#include <filesystem>
#include <optional>

#include "keel/core/tensor/tensor.h"
#include "keel/model/folder/model_folder.h"
#include "keel/model/formats/gguf/gguf_model.h"

namespace keel {

// Both write a Hugging Face folder: config.json, generation_config.json, model.safetensors (in `dtype`: float32,
// float16 or bfloat16) and the tokenizer's files. It appears whole or not at all; one that exists and is not empty is
// refused.

void write_gguf_as_folder(const GgufModel& model, const std::filesystem::path& folder, at::ScalarType dtype);

/// The model of another folder alone, without what training keeps beside it in a checkpoint; without a `dtype` the
/// weights stay in theirs. `weights` are the folder's own, or what they were rounded from.
void write_model_only(const ModelFolder& from, const WeightSource& weights, const std::filesystem::path& folder,
                      std::optional<at::ScalarType> dtype);

}  // namespace keel
