#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/model/formats/weight_dtypes.h"
#include "keel/model/network/model_weights.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// A Hugging Face model folder: config.json, model.safetensors or its shards, the tokenizer files and
/// generation_config.json.
struct ModelFolder {
  std::filesystem::path path;
  ModelConfig config;
  Json generation = Json::object();  // generation_config.json; empty if missing
  WeightDtypes dtypes = {};          // of the weights in files

  /// Reads everything but the weights.
  static ModelFolder open(const std::filesystem::path& path);
  /// The source of the weights. open() has checked that all shards exist.
  WeightSource weights() const;
  /// Tokens that end a completion: eos_token_id of generation_config.json, else of config.json.
  std::vector<int32_t> stop_ids() const;
};

/// Resolves a name to a path: an existing path, or `owner/name` in the local Hugging Face cache. Otherwise it fails
/// (exit code 3) and shows how to download the model.
std::filesystem::path locate_model(const std::string& name);

/// The weight files of a folder: model.safetensors, else the shards in its index.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& folder);

/// The safetensors files of a folder as one source; tensors are read as float32. Fails for integer and 8-bit weights.
WeightSource safetensors_weights(const std::filesystem::path& folder);

/// Writes config.json, generation_config.json, model.safetensors (with `dtypes`) and the tokenizer files.
void write_model_folder(const std::filesystem::path& folder, const ModelWeights& model, const Tokenizer& tokenizer,
                        const Json& generation, const WeightDtypes& dtypes);

ModelWeights read_model_folder(const std::filesystem::path& folder, at::Device device);

}  // namespace keel
