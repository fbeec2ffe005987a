#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "keel/model/formats/weight_dtypes.h"
#include "keel/model/network/model_weights.h"
#include "libs/hftext/chat/chat_encoding.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// A model with its tokenizer, chat templates and the metadata for writing it to a folder.
struct LoadedModel {
  ModelWeights model;
  Tokenizer tokenizer;
  ChatTemplates templates = {};
  std::vector<int32_t> stop_ids = {};  // tokens that end a completion
  Json generation = Json::object();    // generation_config.json; empty: none
  WeightDtypes dtypes = {};            // of the weights in their files
  Json adapter = Json::object();       // adapter_config.json of the adapter on the model; empty: none
};

/// Loads a Hugging Face folder, a GGUF file, or `owner/name` from the local Hugging Face cache.
LoadedModel load_model(const std::string& name, const LoadOptions& options);

/// Loads only the architecture and the tokenizer; `make` returns the weights.
LoadedModel load_with_new_weights(const std::string& name,
                                  const std::function<ModelWeights(const ModelConfig& config)>& make);

/// Loads a Hugging Face folder, with the weights of `weights` if given.
LoadedModel load_folder(const std::filesystem::path& path, const LoadOptions& options,
                        const WeightSource* weights = nullptr);

/// Loads a Hugging Face folder with weights of zeros on the CPU, which take no memory. Names and shapes are checked.
LoadedModel load_folder_without_weights(const std::filesystem::path& path);

/// Loads only the architecture.
ModelConfig load_model_config(const std::string& name);

/// Returns the dtype that a checkpoint's weights have: the first one in the model's files that is not float32, else
/// float32.
at::ScalarType saved_type(const LoadedModel& model);

/// Encodes a text, including the tokens that the post-processor adds, such as <bos>. Special tokens in the text stay
/// plain text unless `read_special`.
std::vector<int32_t> encode_text(const LoadedModel& loaded, const std::string& text, bool read_special = false);

/// Encodes a conversation with the chat template and a generation prompt; `variables` are extra template arguments.
/// Special tokens in messages stay plain text, so that a message cannot end its turn.
std::vector<int32_t> encode_chat(const LoadedModel& loaded, const Json& messages, const TemplateVariables& variables);

}  // namespace keel
