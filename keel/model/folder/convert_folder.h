#pragma once

#include <filesystem>
#include <optional>

#include "keel/core/tensor/tensor.h"
#include "keel/model/folder/model_folder.h"
#include "keel/model/formats/gguf/gguf_model.h"

namespace keel {

// Both functions write a Hugging Face folder: config.json, generation_config.json, model.safetensors (in `dtype`:
// float32, float16 or bfloat16) and the tokenizer files. The folder appears atomically; it must be new or empty.

void write_gguf_as_folder(const GgufModel& model, const std::filesystem::path& folder, at::ScalarType dtype);

/// Copies only the model of a folder, such as a checkpoint. Without `dtype` the weights keep their types. `weights` are
/// those of the folder, or its unrounded master weights.
void write_model_only(const ModelFolder& from, const WeightSource& weights, const std::filesystem::path& folder,
                      std::optional<at::ScalarType> dtype);

}  // namespace keel
