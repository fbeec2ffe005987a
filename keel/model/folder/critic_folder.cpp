#include "keel/model/folder/critic_folder.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/model/families/config_json.h"
#include "keel/model/folder/model_folder.h"
#include "keel/model/formats/safetensors/safetensors.h"

namespace keel {
namespace {

constexpr const char* kHeadFile = "critic.safetensors";
constexpr const char* kFolder = "critic";

/// The config.json of a network with one output per token.
Json token_classifier_json(const ModelConfig& body) {
  Json json = to_config_json(body, Json::object(), at::kFloat);
  constexpr std::string_view kPolicy = "ForCausalLM";
  const Json names = json.value("architectures", Json());
  if (names.is_array() && !names.empty() && names[0].is_string()) {
    std::string name = names[0];
    if (name.ends_with(kPolicy)) name.replace(name.size() - kPolicy.size(), kPolicy.size(), "ForTokenClassification");
    json["architectures"] = {name};
  }
  json["tie_word_embeddings"] = true;  // there is no LM head
  json["id2label"] = {{"0", "value"}};
  json["label2id"] = {{"value", 0}};
  return json;
}

void write_parameters(const std::filesystem::path& path, const std::vector<NamedTensor>& parameters) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const NamedTensor& parameter : parameters) tensors.emplace_back(parameter.name, parameter.value.detach());
  write_safetensors(path, tensors, {{"format", "pt"}});
}

ValueHead read_head(const std::filesystem::path& path, int64_t hidden_size, at::Device device) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const TensorInfo* weight = file.find("score.weight");
  if (weight != nullptr && weight->shape != std::vector<int64_t>{1, hidden_size})
    fail(ExitCode::kBadInput, path.string(), ": score.weight has the shape ", at::IntArrayRef(weight->shape),
         ", but the model requires ", at::IntArrayRef({1, hidden_size}), "; restore the critic that was saved with it");
  return {file.read_float32("score.weight").to(device), file.read_float32("score.bias").to(device)};
}

ModelWeights read_body(const std::filesystem::path& folder, at::Device device) {
  const ModelFolder opened = ModelFolder::open(folder);
  WeightSource weights = opened.weights();
  weights.shapes.erase("score.weight");
  weights.shapes.erase("score.bias");
  return ModelWeights::load(opened.config, weights, {device});
}

}  // namespace

void write_critic(const std::filesystem::path& folder, const Critic& critic) {
  if (!critic.body) return write_parameters(folder / kHeadFile, MasterWeights().value_of(critic.weights()));
  create_directories(folder / kFolder);
  write_parameters(folder / kFolder / "model.safetensors", MasterWeights().value_of(critic.weights()));
  write_atomically(folder / kFolder / "config.json", token_classifier_json(critic.body->config()).dump(2) + "\n");
}

std::optional<Critic> read_critic(const std::filesystem::path& folder, int64_t hidden_size, at::Device device) {
  if (path_exists(folder / kHeadFile)) return Critic{std::nullopt, read_head(folder / kHeadFile, hidden_size, device)};
  if (path_exists(folder / kFolder))
    return Critic{read_body(folder / kFolder, device),
                  read_head(folder / kFolder / "model.safetensors", hidden_size, device)};
  return std::nullopt;
}

}  // namespace keel
