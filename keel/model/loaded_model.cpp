#include "keel/model/loaded_model.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "keel/model/families/config_json.h"
#include "keel/model/folder/hub_cache.h"
#include "keel/model/folder/model_folder.h"
#include "keel/model/formats/gguf/gguf_model.h"

namespace keel {
namespace {

/// Creates a network with stored or random weights.
using MakeNetwork = std::function<ModelWeights(const ModelConfig& config, const WeightSource& weights)>;

constexpr const char* kProcessorTemplate = "chat_template.json";

/// Loads the chat templates. transformers processors store theirs in chat_template.json.
ChatTemplates load_templates(const std::filesystem::path& folder) {
  ChatTemplates templates = ChatTemplates::load(folder);
  const std::filesystem::path file = folder / kProcessorTemplate;
  if (!templates.empty() || !path_exists(file)) return templates;
  const Json tree = read_json_file(file);
  if (!tree.is_object() || !tree.contains("chat_template"))
    fail(ExitCode::kBadInput, file.string(),
         ": no \"chat_template\"; expected an object with a template under this key");
  return ChatTemplates::from_json(tree["chat_template"], file.string());
}

/// Fails if a cached folder has no tokenizer, because its download is incomplete.
void check_downloaded_tokenizer(const std::filesystem::path& folder) {
  const std::string hint = download_hint(folder);
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json"})
    if (hint.empty() || path_exists(folder / name)) return;
  fail(ExitCode::kBadInput, folder.string(), ": no tokenizer.json; ", hint);
}

LoadedModel from_folder(const std::filesystem::path& path, const MakeNetwork& make, const WeightSource& weights) {
  const ModelFolder folder = ModelFolder::open(path);
  check_downloaded_tokenizer(path);
  Tokenizer tokenizer = Tokenizer::load(path);
  std::vector<int32_t> stop_ids = folder.stop_ids();
  // Some fine-tunings change only the eos_token of the tokenizer. TRL and vLLM also stop at it.
  if (const auto eos = tokenizer.eos_id(); eos && std::ranges::find(stop_ids, *eos) == stop_ids.end())
    stop_ids.push_back(*eos);
  return {make(folder.config, weights), std::move(tokenizer), load_templates(path),
          std::move(stop_ids),          folder.generation,    folder.dtypes};
}

LoadedModel from_gguf(const std::filesystem::path& path, const MakeNetwork& make) {
  const GgufModel gguf = GgufModel::open(path);
  const GgufTokenizer files = gguf.tokenizer();
  WeightSource source{
      .origin = path.string(), .shapes = {}, .read = [&](const std::string& name) { return gguf.read(name); }};
  for (const GgufParameter& parameter : gguf.parameters()) source.shapes[parameter.name] = parameter.shape;
  const Json chat_template = files.tokenizer_config.value("chat_template", Json());
  return {.model = make(from_config_json(gguf.config(), path.string()), source),
          .tokenizer = Tokenizer::from_json(files.tokenizer, files.tokenizer_config, path.string()),
          .templates = ChatTemplates::from_json(chat_template, path.string()),
          .stop_ids = {files.stop_ids.begin(), files.stop_ids.end()},
          .generation = gguf.generation()};
}

bool is_gguf(const std::filesystem::path& path, const std::string& name) {
  if (is_folder(path)) return false;
  if (path.extension() == ".gguf") return true;
  fail(ExitCode::kBadInput, "model \"", name, "\" is a file; expected a Hugging Face model folder or a .gguf file");
}

}  // namespace

LoadedModel load_model(const std::string& name, const LoadOptions& options) {
  const std::filesystem::path path = locate_model(name);
  if (!is_gguf(path, name)) return load_folder(path, options);
  return from_gguf(path, [&](const ModelConfig& config, const WeightSource& weights) {
    return ModelWeights::load(config, weights, options);
  });
}

LoadedModel load_folder(const std::filesystem::path& path, const LoadOptions& options, const WeightSource* weights) {
  const MakeNetwork load = [&](const ModelConfig& config, const WeightSource& source) {
    return ModelWeights::load(config, source, options);
  };
  return from_folder(path, load, weights != nullptr ? *weights : safetensors_weights(path));
}

LoadedModel load_folder_without_weights(const std::filesystem::path& path) {
  WeightSource zeros = safetensors_weights(path);
  zeros.read = [shapes = zeros.shapes](const std::string& name) { return at::zeros({1}).expand(shapes.at(name)); };
  return load_folder(path, {at::kCPU}, &zeros);
}

LoadedModel load_with_new_weights(const std::string& name,
                                  const std::function<ModelWeights(const ModelConfig& config)>& make) {
  const MakeNetwork make_network = [&](const ModelConfig& config, const WeightSource&) { return make(config); };
  const std::filesystem::path path = locate_model(name);
  return is_gguf(path, name) ? from_gguf(path, make_network) : from_folder(path, make_network, {});
}

ModelConfig load_model_config(const std::string& name) {
  const std::filesystem::path path = locate_model(name);
  if (!is_gguf(path, name)) return ModelFolder::open(path).config;
  return from_config_json(GgufModel::open(path).config(), path.string());
}

at::ScalarType saved_type(const LoadedModel& model) {
  for (const NamedTensor& weight : model.model.parameters())
    if (const at::ScalarType type = model.dtypes.get(weight.name); type != at::kFloat) return type;
  return at::kFloat;
}

std::vector<int32_t> encode_text(const LoadedModel& loaded, const std::string& text, bool read_special) {
  return PromptEncoder(loaded.tokenizer, loaded.templates).text(text, read_special).tokens;
}

std::vector<int32_t> encode_chat(const LoadedModel& loaded, const Json& messages, const TemplateVariables& variables) {
  if (loaded.templates.empty())
    fail(ExitCode::kBadInput, "the model has no chat template; leave --chat out to continue a plain text");
  return PromptEncoder(loaded.tokenizer, loaded.templates).chat(messages, variables).tokens;
}

}  // namespace keel
