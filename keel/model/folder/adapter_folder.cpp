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
constexpr const char* kSameAdapterHint = "; expected the adapter of this model with its own adapter_config.json";
constexpr const char* kPrefix = "base_model.model.";  // the prefix of tensor names in PEFT

std::string tensor_name(const std::string& layer, const char* part) { return kPrefix + layer + part; }

/// Reads a tensor of an adapter and checks its shape.
Tensor read_tensor(const SafetensorsFile& file, const std::string& location, const std::string& name,
                   const std::vector<int64_t>& shape) {
  if (!file.contains(name))
    fail(ExitCode::kBadInput, location, ": no tensor \"", name, "\", which ", kConfig, " requires", kSameAdapterHint);
  const std::vector<int64_t>& stored = file.find(name)->shape;
  if (stored != shape)
    fail(ExitCode::kBadInput, location, ": tensor \"", name, "\" has shape ", at::IntArrayRef(stored), ", ", kConfig,
         " and the model require ", at::IntArrayRef(shape), kSameAdapterHint);
  const Tensor value = file.read_float32(name);
  if (!value.isfinite().all().item<bool>())
    fail(ExitCode::kBadInput, location, ": tensor \"", name, "\" holds NaN or Inf; train or fetch the adapter again");
  return value;
}

bool is_embedding_or_head(const std::string& tensor) {
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
  const std::string location = (folder / kTensors).string();
  if (!path_exists(folder / kTensors) && path_exists(folder / "adapter_model.bin"))
    fail(ExitCode::kBadInput, folder.string(), ": no ", kTensors,
         ", and adapter_model.bin runs code when it is loaded; ",
         "load it with PEFT and save it again with save_pretrained(..., safe_serialization=True)");
  const SafetensorsFile file = SafetensorsFile::open(folder / kTensors);
  model.set_adapter([&](const std::string& layer, int64_t out, int64_t in) -> std::optional<LoraMatrices> {
    if (!config.targets(layer)) return std::nullopt;
    const int64_t rank = config.rank(layer);
    return LoraMatrices{read_tensor(file, location, tensor_name(layer, ".lora_A.weight"), {rank, in}),
                        read_tensor(file, location, tensor_name(layer, ".lora_B.weight"), {out, rank}),
                        config.scale(layer)};
  });
  std::set<std::string> known;
  for (const NamedTensor& weight : model.adapter()) known.insert(kPrefix + weight.name);
  for (const TensorInfo& info : file.tensors()) {
    if (known.contains(info.name)) continue;
    if (is_embedding_or_head(info.name))
      fail(ExitCode::kBadInput, location, ": tensor \"", info.name, "\" changes the embedding or the LM head, ",
           "which is not supported; ", kMergeFirst);
    if (!known.empty())
      fail(ExitCode::kBadInput, location, ": tensor \"", info.name, "\" of shape ", at::IntArrayRef(info.shape),
           " does not belong to this model", kSameAdapterHint);
  }
  if (known.empty())
    fail(ExitCode::kBadInput, (folder / kConfig).string(), ": target_modules is ",
         config.json()["target_modules"].dump(),
         ", which matches no linear layer of this model; is the adapter for another model?");
  return config.json();
}

}  // namespace keel
