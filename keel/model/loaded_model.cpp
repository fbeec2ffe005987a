#include "keel/model/loaded_model.h"

#include <ATen/ATen.h>

#include <ctime>

#include "keel/core/error.h"
#include "keel/model/gguf_model.h"
#include "keel/model/model_folder.h"
#include "keel/text/chat_encoding.h"

namespace keel {
namespace {

LoadedModel load_folder(const std::filesystem::path& path, at::Device device) {
  const ModelFolder folder = ModelFolder::open(path);
  Tokenizer tokenizer = Tokenizer::load(path);
  std::vector<int32_t> stop_ids = folder.stop_ids();
  if (stop_ids.empty() && tokenizer.eos_id()) stop_ids.push_back(*tokenizer.eos_id());
  return {CausalLm::load(folder.config, folder.weights(), device), std::move(tokenizer), ChatTemplates::load(path),
          std::move(stop_ids)};
}

LoadedModel load_gguf(const std::filesystem::path& path, at::Device device) {
  const GgufModel gguf = GgufModel::open(path);
  const GgufTokenizer files = gguf.tokenizer();
  WeightSource source{
      .place = path.string(), .shapes = {}, .read = [&](const std::string& name) { return gguf.read(name); }};
  for (const GgufParameter& parameter : gguf.parameters()) source.shapes[parameter.name] = parameter.shape;
  const Json chat_template = files.tokenizer_config.value("chat_template", Json());
  return {CausalLm::load(from_config_json(gguf.config(), path.string()), source, device),
          Tokenizer::from_json(files.tokenizer, files.tokenizer_config, path.string()),
          ChatTemplates::from_json(chat_template, path.string()),
          {files.ends.begin(), files.ends.end()}};
}

}  // namespace

LoadedModel load_model(const std::string& name, at::Device device) {
  const std::filesystem::path path = find_model(name);
  if (std::filesystem::is_directory(path)) return load_folder(path, device);
  if (path.extension() == ".gguf") return load_gguf(path, device);
  fail(ExitCode::kBadInput, "model \"", name, "\" is a file; wanted a Hugging Face model folder or a .gguf file");
}

std::vector<int32_t> encode_text(const LoadedModel& loaded, const std::string& text) {
  return PromptEncoder(loaded.tokenizer, loaded.templates).text(text).tokens;
}

std::vector<int32_t> encode_chat(const LoadedModel& loaded, const Json& messages) {
  if (loaded.templates.empty())
    fail(ExitCode::kBadInput, "the model has no chat template; leave --chat out to continue a plain text");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return PromptEncoder(loaded.tokenizer, loaded.templates).chat(messages, local).tokens;
}

}  // namespace keel
