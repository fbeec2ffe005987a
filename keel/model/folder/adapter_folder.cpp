#include "keel/model/folder/adapter_folder.h"

#include <ATen/ATen.h>

#include <set>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "keel/model/folder/adapter_config.h"
#include "keel/model/formats/safetensors/safetensors.h"

namespace keel {
namespace {

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kTensors = "adapter_model.safetensors";
constexpr const char* kOfOneAdapter =
    "; expected the adapter of this model, with the adapter_config.json that was saved beside it";
constexpr const char* kPrefix = "base_model.model.";  // PEFT wraps the model twice before it names its tensors

std::string with(const std::string& layer, const char* part) { return kPrefix + layer + part; }

/// One tensor of an adapter, of the shape that it must have.
Tensor read_part(const SafetensorsFile& file, const std::string& place, const std::string& name,
                 const std::vector<int64_t>& shape) {
  if (!file.contains(name))
    fail(ExitCode::kBadInput, place, ": no tensor \"", name, "\"; ", kConfig, " asks for it", kOfOneAdapter);
  const std::vector<int64_t>& stored = file.find(name)->shape;
  if (stored != shape)
    fail(ExitCode::kBadInput, place, ": tensor \"", name, "\" has shape ", at::IntArrayRef(stored), ", ", kConfig,
         " and the model ask for ", at::IntArrayRef(shape), kOfOneAdapter);
  const Tensor value = file.read_float32(name);
  if (!value.isfinite().all().item<bool>())
    fail(ExitCode::kBadInput, place, ": tensor \"", name, "\" holds NaN or Inf; train or fetch the adapter again");
  return value;
}

/// Embeddings and the LM head, adapted or saved whole.
bool is_of_the_ends(const std::string& tensor) {
  return tensor.find(".embed_tokens.") != std::string::npos || tensor.find(".lm_head.") != std::string::npos;
}

}  // namespace

void write_adapter(const std::filesystem::path& folder, const std::vector<NamedTensor>& adapter, const Json& config) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const NamedTensor& weight : adapter) tensors.emplace_back(kPrefix + weight.name, weight.value.detach());
  write_safetensors(folder / kTensors, tensors, {{"format", "pt"}});
  write_atomically(folder / kConfig, config.dump(2) + "\n");
}

Json read_adapter(const std::filesystem::path& folder, ModelWeights& model) {
  const AdapterConfig config(read_json_file(folder / kConfig), (folder / kConfig).string());
  const std::string place = (folder / kTensors).string();
  if (!path_exists(folder / kTensors) && path_exists(folder / "adapter_model.bin"))
    fail(ExitCode::kBadInput, folder.string(), ": no ", kTensors,
         ", and adapter_model.bin runs code when it is loaded; ",
         "load it with PEFT and save it again with save_pretrained(..., safe_serialization=True)");
  const SafetensorsFile file = SafetensorsFile::open(folder / kTensors);
  model.set_adapter([&](const std::string& layer, int64_t out, int64_t in) -> std::optional<LoraMatrices> {
    if (!config.targets(layer)) return std::nullopt;
    const int64_t rank = config.rank(layer);
    return LoraMatrices{read_part(file, place, with(layer, ".lora_A.weight"), {rank, in}),
                        read_part(file, place, with(layer, ".lora_B.weight"), {out, rank}), config.scale(layer)};
  });
  std::set<std::string> known;
  for (const NamedTensor& weight : model.adapter()) known.insert(kPrefix + weight.name);
  for (const TensorInfo& info : file.tensors()) {
    if (known.contains(info.name)) continue;
    if (is_of_the_ends(info.name))
      fail(ExitCode::kBadInput, place, ": tensor \"", info.name, "\" changes the embedding or the head, ",
           "which adapters do not reach here; ", kMergeFirst);
    if (!known.empty())
      fail(ExitCode::kBadInput, place, ": tensor \"", info.name, "\" of shape ", at::IntArrayRef(info.shape),
           " has no place on this model", kOfOneAdapter);
  }
  if (known.empty())
    fail(ExitCode::kBadInput, (folder / kConfig).string(), ": target_modules is ",
         config.json()["target_modules"].dump(),
         ", which names no linear layer of this model; is it another model's adapter?");
  return config.json();
}

}  // namespace keel
