#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "keel/model/formats/weight_dtypes.h"
#include "keel/model/network/model_weights.h"
#include "libs/hftext/chat/chat_encoding.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// A model with everything it needs to talk, and what a folder needs besides to hold it.
struct LoadedModel {
  ModelWeights model;
  Tokenizer tokenizer;
  ChatTemplates templates = {};
  std::vector<int32_t> stop_ids = {};  // tokens that end a completion
  Json generation = Json::object();    // generation_config.json; empty: none
  WeightDtypes dtypes = {};            // of the weights where they came from
  Json adapter = Json::object();       // adapter_config.json of the adapter on the model; empty: none
};

/// From a Hugging Face folder, a GGUF file, or `owner/name` in the local Hugging Face cache.
LoadedModel load_model(const std::string& name, at::Device device);

/// The same with fresh random weights: only the architecture and the tokenizer come from there.
LoadedModel load_with_random_weights(const std::string& name, uint64_t seed, at::Device device);

/// From a Hugging Face folder, with other weights than its own where `weights` is given.
LoadedModel load_folder(const std::filesystem::path& path, at::Device device, const WeightSource* weights = nullptr);

/// The architecture alone, without reading weights.
ModelConfig load_model_config(const std::string& name);

/// The token ids of a text: with what the tokenizer's post-processor adds, such as <bos>. Special tokens spelled out in
/// the text stay text, unless they are to be read.
std::vector<int32_t> encode_text(const LoadedModel& loaded, const std::string& text, bool read_special = false);

/// The token ids of a conversation through the model's chat template, up to where the model is to go on; `words` is
/// what it is told besides. Special tokens spelled out in a message stay text: nobody can end a turn, or begin one, by
/// writing its token.
std::vector<int32_t> encode_chat(const LoadedModel& loaded, const Json& messages, const TemplateVariables& words);

}  // namespace keel
