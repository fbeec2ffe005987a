#include "keel/model/lora.h"

#include <ATen/ATen.h>

#include <cmath>
#include <set>

#include "keel/core/error.h"
#include "keel/core/file.h"
#include "keel/core/json_file.h"
#include "keel/core/options.h"
#include "keel/model/causal_lm.h"
#include "keel/model/families.h"
#include "keel/model/safetensors.h"

namespace keel {
namespace {

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kTensors = "adapter_model.safetensors";
constexpr const char* kPrefix = "base_model.model.";  // PEFT wraps the model twice before it names its tensors

/// PEFT's other starts (pissa, olora, corda, loftq, ...) change the base model's weights too, and the adapter is then
/// of use on those alone.
bool leaves_the_base_alone(const Json& start) {
  static const std::set<std::string> known{"gaussian", "orthogonal", "eva"};
  return start.is_null() || start.is_boolean() || (start.is_string() && known.contains(start));
}

}  // namespace

void LoraOptions::describe(OptionTable& table) {
  table.add("rank", rank, "Rank of the adapters that are trained in place of the weights; 0 trains the weights.",
            at_least(0).at_most(1 << 16));
  table.add("alpha", alpha, "The adapters' product is scaled by alpha / rank.", above(0));
  table.add("rank_stabilized", rank_stabilized, "Scale by alpha / sqrt(rank) instead (arXiv 2312.03732).");
  table.add("target_modules", target_modules,
            "Linear layers that get an adapter: their names, or the ends of their names, as PEFT matches them.",
            not_empty());
  table.add("adapter", adapter,
            "Folder of a PEFT adapter to go on from; its adapter_config.json then says rank, alpha and layers.");
}

double LoraOptions::scale() const {
  const double r = static_cast<double>(rank);
  return alpha / (rank_stabilized ? std::sqrt(r) : r);
}

Json to_adapter_json(const LoraOptions& options, const std::string& base_model) {
  return {{"base_model_name_or_path", base_model},
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

LoraOptions from_adapter_json(const Json& json, const std::string& place) {
  if (!json.is_object()) fail(ExitCode::kBadInput, place, ": not a JSON object; is this an adapter's configuration?");
  const ConfigReader r(json, place);
  if (r.text("peft_type", "LORA") != "LORA")
    fail(ExitCode::kBadInput, place, ": peft_type is \"", r.text("peft_type", ""), "\"; known: LORA");
  const auto refuse = [&](const char* key) {
    fail(
        ExitCode::kBadInput, place, ": \"", key, "\" is ", json[key].dump(),
        ", which would change the result and is not supported; merge the adapter with PEFT's merge_and_unload() first");
  };
  for (const char* key : {"use_dora", "fan_in_fan_out", "lora_bias", "use_qalora"})
    if (r.flag(key, false)) refuse(key);
  if (r.text("bias", "none") != "none") refuse("bias");
  for (const char* key :
       {"modules_to_save", "rank_pattern", "alpha_pattern", "layers_to_transform", "exclude_modules",
        "layer_replication", "target_parameters", "trainable_token_indices", "alora_invocation_tokens", "use_bdlora",
        "arrow_config", "kasa_config", "monteclora_config", "velora_config", "loftq_config"})
    if (r.has(key) && json[key] != false && !json[key].empty()) refuse(key);
  if (!leaves_the_base_alone(json.value("init_lora_weights", Json(true)))) refuse("init_lora_weights");
  for (const char* key : {"r", "lora_alpha"})
    if (!r.has(key))
      fail(ExitCode::kBadInput, place, ": no key \"", key, "\"; is this the ", kConfig, " of a PEFT adapter?");
  LoraOptions options;
  options.rank = r.integer("r");
  if (options.rank < 1) fail(ExitCode::kBadInput, place, ": r is ", options.rank, "; wanted at least 1");
  options.alpha = r.number("lora_alpha");
  options.rank_stabilized = r.flag("use_rslora", false);
  if (!r.has("target_modules")) fail(ExitCode::kBadInput, place, ": no key \"target_modules\"");
  const Json& modules = json["target_modules"];
  if (modules == "all-linear") return options;  // the default: every linear layer of every block
  if (!modules.is_array()) refuse("target_modules");
  options.target_modules.clear();
  for (const Json& module : modules) {
    if (!module.is_string()) refuse("target_modules");
    options.target_modules.push_back(module);
  }
  return options;
}

void write_adapter(const std::filesystem::path& folder, const CausalLm& model, const LoraOptions& options,
                   const std::string& base_model) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const NamedTensor& weight : model.adapter()) tensors.emplace_back(kPrefix + weight.name, weight.value.detach());
  write_safetensors(folder / kTensors, tensors, {{"format", "pt"}});
  write_atomically(folder / kConfig, to_adapter_json(options, base_model).dump(2) + "\n");
}

LoraOptions read_adapter(const std::filesystem::path& folder, CausalLm& model) {
  const std::filesystem::path config = folder / kConfig;
  const LoraOptions options = from_adapter_json(read_json_file(config), config.string());
  try {
    model.add_adapter(options, /*seed=*/0);
  } catch (const Error& error) {
    fail(ExitCode::kBadInput, config.string(), ": ", error.what());
  }
  const SafetensorsFile file = SafetensorsFile::open(folder / kTensors);
  const std::string place = (folder / kTensors).string();
  for (const NamedTensor& weight : model.adapter()) {
    const std::string name = kPrefix + weight.name;
    if (!file.contains(name)) fail(ExitCode::kBadInput, place, ": no tensor \"", name, "\"; ", kConfig, " asks for it");
    const at::NoGradGuard no_grad;
    const Tensor value = file.read_float32(name);
    if (value.sizes() != weight.value.sizes())
      fail(ExitCode::kBadInput, place, ": tensor \"", name, "\" has shape ", value.sizes(), ", ", kConfig,
           " and the model ask for ", weight.value.sizes());
    if (!value.isfinite().all().item<bool>())
      fail(ExitCode::kBadInput, place, ": tensor \"", name, "\" holds NaN or Inf; train or fetch the adapter again");
    Tensor target = weight.value;
    target.copy_(value);
  }
  std::set<std::string> known;
  for (const NamedTensor& weight : model.adapter()) known.insert(kPrefix + weight.name);
  for (const TensorInfo& info : file.tensors()) {
    if (!known.contains(info.name))
      fail(ExitCode::kBadInput, place, ": tensor \"", info.name, "\" of shape ", at::IntArrayRef(info.shape),
           " has no place on this model");
  }
  return options;
}

}  // namespace keel
