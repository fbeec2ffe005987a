#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/model/formats/weight_dtypes.h"
#include "keel/model/network/model_weights.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// A model as it lies on a disk: a Hugging Face folder (config.json, model.safetensors or its shards, the tokenizer's
/// files, generation_config.json).
struct ModelFolder {
  std::filesystem::path path;
  ModelConfig config;
  Json generation = Json::object();  // generation_config.json; empty where there is none
  WeightDtypes dtypes = {};          // of the weights in the files

  /// Reads everything but the weights.
  static ModelFolder open(const std::filesystem::path& path);
  /// Where the weights are; `open` has checked that every shard of the index is there.
  WeightSource weights() const;
  /// Tokens that end a completion: generation_config.json's and config.json's eos_token_id.
  std::vector<int32_t> stop_ids() const;
};

/// The folder that a name means: a path, or `owner/name` in the local Hugging Face cache. A name that is neither is an
/// error (exit code 3) that shows how to download it.
std::filesystem::path locate_model(const std::string& name);

/// The files that a folder's weights are read from: model.safetensors, or else the shards that its index names.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& folder);

/// The safetensors files of a folder as one source, whatever their number; each tensor is read as float32. Weights that
/// are no floating-point numbers of 16 bits or more are refused.
WeightSource safetensors_weights(const std::filesystem::path& folder);

/// Writes config.json, generation_config.json, model.safetensors (weights as `dtypes`) and the tokenizer's files into a
/// folder.
void write_model_folder(const std::filesystem::path& folder, const ModelWeights& model, const Tokenizer& tokenizer,
                        const Json& generation, const WeightDtypes& dtypes);

/// The network of a folder that write_model_folder wrote, or any other.
ModelWeights read_model_folder(const std::filesystem::path& folder, at::Device device);

}  // namespace keel
