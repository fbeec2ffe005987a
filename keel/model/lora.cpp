#include "keel/model/lora.h"

#include <ATen/ATen.h>

#include <cmath>
#include <set>

#include "keel/core/error.h"
#include "keel/core/file.h"
#include "keel/core/json_file.h"
#include "keel/core/options.h"
#include "keel/model/adapter_config.h"
#include "keel/model/causal_lm.h"
#include "keel/model/safetensors.h"

namespace keel {
namespace {

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kTensors = "adapter_model.safetensors";
constexpr const char* kOfOneAdapter =
    "; wanted the adapter of this model, with the adapter_config.json that was saved beside it";
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

void LoraOptions::describe(OptionTable& table) {
  table.add("rank", rank, "Rank of the adapters that are trained in place of the weights; 0 trains the weights.",
            at_least(0).at_most(1 << 16));
  table.add("alpha", alpha, "The adapters' product is scaled by alpha / rank.", above(0).at_most(kMostLoraAlpha));
  table.add("rank_stabilized", rank_stabilized, "Scale by alpha / sqrt(rank) instead (arXiv 2312.03732).");
  table.add("target_modules", target_modules,
            "Linear layers that get an adapter: their names, or the ends of their names, as PEFT matches them.",
            not_empty());
  table.add("adapter", adapter,
            "Folder of a PEFT adapter to go on from, or of a run or checkpoint that has one; its adapter_config.json then "
            "says rank, alpha and layers.");
}

double LoraOptions::scale() const {
  const double r = static_cast<double>(rank);
  return alpha / (rank_stabilized ? std::sqrt(r) : r);
}

Json to_adapter_json(const LoraOptions& options) {
  return {{"base_model_name_or_path", nullptr},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"lora_alpha", options.alpha},
          {"lora_dropout", 0.0},
          {"modules_to_save", nullptr},
          {"peft_type", "LORA"},
          {"r", options.rank},
          {"target_modules", options.target_modules},
          {"task_type", "CAUSAL_LM"},
          {"use_dora", false},
          {"use_rslora", options.rank_stabilized}};
}

void write_adapter(const std::filesystem::path& folder, const CausalLm& model, const Json& config) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const NamedTensor& weight : model.adapter()) tensors.emplace_back(kPrefix + weight.name, weight.value.detach());
  write_safetensors(folder / kTensors, tensors, {{"format", "pt"}});
  write_atomically(folder / kConfig, config.dump(2) + "\n");
}

Json read_adapter(const std::filesystem::path& folder, CausalLm& model) {
  const AdapterConfig config(read_json_file(folder / kConfig), (folder / kConfig).string());
  const std::string place = (folder / kTensors).string();
  if (!path_exists(folder / kTensors) && path_exists(folder / "adapter_model.bin"))
    fail(ExitCode::kBadInput, folder.string(), ": no ", kTensors,
         ", and adapter_model.bin runs code when it is loaded; ",
         "load it with PEFT and save it again with save_pretrained(..., safe_serialization=True)");
  const SafetensorsFile file = SafetensorsFile::open(folder / kTensors);
  model.put_adapter([&](const std::string& layer, int64_t out, int64_t in) -> std::optional<LowRank> {
    if (!config.targets(layer)) return std::nullopt;
    const int64_t rank = config.rank(layer);
    return LowRank{read_part(file, place, with(layer, ".lora_A.weight"), {rank, in}),
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
