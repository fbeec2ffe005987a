#include "keel/model/folder/model_folder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <set>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "keel/core/untrusted_text.h"
#include "keel/model/families/config_json.h"
#include "keel/model/folder/hub_cache.h"
#include "keel/model/formats/safetensors/safetensors.h"

namespace keel {
namespace {

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

/// Reads the tensor-to-file map of an index. The file is untrusted: names must stay inside the folder.
std::map<std::string, std::string> read_weight_map(const std::filesystem::path& index) {
  const Json json = read_json_file(index);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    fail(ExitCode::kBadInput, index.string(), ": no object \"weight_map\"; is this an index of safetensors files?");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string())
      fail(ExitCode::kBadInput, index.string(), ": the file of tensor ", printable(tensor), " is ",
           format_short_json(file), ", expected a name");
    const std::string name = file;
    if (name.empty() || name.find('/') != std::string::npos || name.find('\0') != std::string::npos || name == "..")
      fail(ExitCode::kBadInput, index.string(), ": tensor ", printable(tensor), " is mapped to ", printable(name),
           "; expected a file in the same folder");
    files[tensor] = name;
  }
  return files;
}

void check_not_adapter(const std::filesystem::path& folder) {
  if (!path_exists(folder / "config.json") && path_exists(folder / "adapter_config.json"))
    fail(ExitCode::kBadInput, folder.string(), " is an adapter, not a model: use the base_model_name_or_path of its ",
         "adapter_config.json as the model, and pass the adapter with lora.adapter or --adapter");
}

/// The types for writing the weights back; float64 becomes float32.
WeightDtypes read_dtypes(const std::filesystem::path& folder) {
  std::map<std::string, at::ScalarType> each;
  for (const auto& path : weight_files(folder)) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    for (const TensorInfo& info : file.tensors()) each[info.name] = info.dtype == at::kDouble ? at::kFloat : info.dtype;
  }
  return WeightDtypes(std::move(each));
}

/// Fails for integers and 8-bit floats, which need the scales of a quantised model.
void check_weight_type(const TensorInfo& info, const std::filesystem::path& path) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble})
    if (info.dtype == dtype) return;
  fail(ExitCode::kBadInput, path.string(), ": tensor \"", info.name, "\" has the dtype ",
       safetensors_dtype_name(info.dtype),
       "; expected F32, F16, BF16 or F64. Use the folder of the model before it was quantised, or a GGUF file");
}

/// eos_token_id: an id, a list of them, or null.
std::vector<int32_t> parse_stop_ids(const Json& json, int64_t vocab_size, const std::string& location) {
  std::vector<int32_t> ids;
  const Json eos = json.value("eos_token_id", Json());
  const auto add = [&](const Json& id) {
    // This rejects negative ids; ids above 2^63 are unsigned.
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(vocab_size))
      fail(ExitCode::kBadInput, location, ": eos_token_id is ", format_short_json(eos),
           "; expected a token id from 0 to ", vocab_size - 1, ", a list of them, or null");
    if (std::find(ids.begin(), ids.end(), id.get<int32_t>()) == ids.end()) ids.push_back(id.get<int32_t>());
  };
  if (eos.is_array())
    std::for_each(eos.begin(), eos.end(), add);
  else if (!eos.is_null())
    add(eos);
  return ids;
}

/// Checks that the index and the files list the same tensors.
void check_index(const std::filesystem::path& index, const std::map<std::string, std::string>& found) {
  const std::map<std::string, std::string> expected = read_weight_map(index);
  const auto file_of = [](const std::map<std::string, std::string>& files, const std::string& tensor) {
    const auto entry = files.find(tensor);
    return entry == files.end() ? std::string("no file") : entry->second;
  };
  for (const auto& [tensor, file] : expected)
    if (file_of(found, tensor) != file)
      fail(ExitCode::kBadInput, index.string(), ": tensor ", printable(tensor), " should be in ", file,
           ", but it is in ", file_of(found, tensor), "; the index belongs to other files");
  for (const auto& [tensor, file] : found)
    if (!expected.contains(tensor))
      fail(ExitCode::kBadInput, index.string(), ": tensor \"", tensor, "\" of ", file,
           " is missing; the index belongs to other files");
}

/// Fails for dangling links, so that an optional file that the cache lost does not count as absent.
void check_links(const std::filesystem::path& folder) {
  for (const std::string& name : list_directory(folder)) {
    const std::filesystem::path path = folder / name;
    const bool is_read = name.ends_with(".json") || name.ends_with(".jinja") || name.ends_with(".safetensors");
    if (!is_read || path_exists(path)) continue;
    const std::string hint = download_hint(folder);
    fail(ExitCode::kBadInput, path.string(), " is a dangling link; ",
         hint.empty() ? "restore its target, or remove the link" : hint);
  }
}

}  // namespace

ModelFolder ModelFolder::open(const std::filesystem::path& path) {
  const std::filesystem::path config = path / "config.json", generation = path / "generation_config.json";
  check_not_adapter(path);
  if (!path_exists(config))
    fail(ExitCode::kBadInput, path.string(), ": no config.json; ",
         download_hint(path).empty() ? "expected a Hugging Face model folder" : download_hint(path));
  check_links(path);
  ModelFolder folder{.path = path, .config = from_config_json(read_json_file(config), config.string())};
  if (path_exists(generation)) folder.generation = read_json_file(generation);
  if (!folder.generation.is_object()) fail(ExitCode::kBadInput, generation.string(), ": not a JSON object");
  if (path_exists(path / kWeights) || path_exists(path / kIndex)) folder.dtypes = read_dtypes(path);
  return folder;
}

WeightSource ModelFolder::weights() const { return safetensors_weights(path); }

std::vector<int32_t> ModelFolder::stop_ids() const {
  const std::vector<int32_t> ids =
      parse_stop_ids(generation, config.vocab_size, (path / "generation_config.json").string());
  return !ids.empty() ? ids : parse_stop_ids(config.source, config.vocab_size, (path / "config.json").string());
}

std::filesystem::path locate_model(const std::string& name) {
  if (name.empty())
    fail(ExitCode::kBadInput,
         "the model's name is empty; expected a Hugging Face folder, a GGUF file, or owner/name in ",
         "the local Hugging Face cache (", hub_cache().string(), ")");
  if (path_exists(name)) return name;
  if (name.starts_with("~"))
    fail(ExitCode::kBadInput, "model \"", name, "\" does not exist: ~ is expanded only by a shell, and not ",
         "after a = or in a file; write the full path, or $HOME");
  if (name.find('$') != std::string::npos)
    fail(ExitCode::kBadInput, "model \"", name, "\" does not exist: $NAME is expanded only by a shell, and not ",
         "in a file or between single quotes; write the full path");
  const bool is_repository_name = std::count(name.begin(), name.end(), '/') <= 1 && !name.starts_with(".") &&
                                  !name.starts_with("/") && name.find(':') == std::string::npos;
  if (is_repository_name) {
    const std::filesystem::path snapshot = cached_snapshot(name);
    if (!snapshot.empty()) return snapshot;
    fail(ExitCode::kBadInput, "model \"", name, "\" is neither a folder nor in the local Hugging Face cache (",
         hub_cache().string(), "); download it with: hf download ", name,
         " (pip install huggingface_hub), or give the path of its folder");
  }
  fail(ExitCode::kBadInput, "model \"", name, "\" does not exist; expected the path of a model folder");
}

std::vector<std::filesystem::path> weight_files(const std::filesystem::path& folder) {
  if (path_exists(folder / kWeights)) return {folder / kWeights};
  check_not_adapter(folder);
  const std::string hint = download_hint(folder);
  if (!path_exists(folder / kIndex)) {
    const bool other_format =
        path_exists(folder / "pytorch_model.bin") || path_exists(folder / "pytorch_model.bin.index.json");
    const std::vector<std::string> names = list_directory(folder);
    const auto shard = std::find_if(names.begin(), names.end(), [](const std::string& name) {
      return name.starts_with("model-") && name.ends_with(".safetensors");
    });
    if (shard != names.end() && hint.empty())
      fail(ExitCode::kBadInput, folder.string(), ": no ", kWeights, ", and ", *shard,
           " is one of several shards, whose ", kIndex, " is missing; download it, too");
    fail(ExitCode::kBadInput, folder.string(), ": no ", kWeights, " and no ", kIndex, "; ",
         !hint.empty() && !other_format
             ? hint
             : "convert other formats (pytorch_model.bin runs code when it is loaded) with transformers' "
               "save_pretrained(..., safe_serialization=True)");
  }
  std::set<std::string> names;
  for (const auto& [tensor, name] : read_weight_map(folder / kIndex)) names.insert(name);
  std::vector<std::filesystem::path> files;
  for (const std::string& name : names) {
    if (!path_exists(folder / name))
      fail(ExitCode::kBadInput, (folder / kIndex).string(), ": shard ", name, " does not exist; ",
           hint.empty() ? "was the download interrupted?" : hint);
    files.push_back(folder / name);
  }
  return files;
}

WeightSource safetensors_weights(const std::filesystem::path& folder) {
  struct Shards {
    std::vector<SafetensorsFile> files;
    std::map<std::string, size_t> file_of;
  };
  std::map<std::string, std::string> found;  // tensor to the name of its file
  const auto shards = std::make_shared<Shards>();
  WeightSource source{.origin = folder.string(), .shapes = {}, .read = {}};
  for (const auto& path : weight_files(folder)) {
    const size_t index = shards->files.size();
    shards->files.push_back(SafetensorsFile::open(path));
    for (const TensorInfo& info : shards->files.back().tensors()) {
      check_weight_type(info, path);
      if (!shards->file_of.emplace(info.name, index).second)
        fail(ExitCode::kBadInput, path.string(), ": tensor \"", info.name, "\" is also in another file of the folder");
      source.shapes[info.name] = info.shape;
      found[info.name] = path.filename().string();
    }
  }
  if (!path_exists(folder / kWeights)) check_index(folder / kIndex, found);
  source.read = [shards](const std::string& name) {
    return shards->files[shards->file_of.at(name)].read_float32(name);
  };
  return source;
}

void write_model_folder(const std::filesystem::path& folder, const ModelWeights& model, const Tokenizer& tokenizer,
                        const Json& generation, const WeightDtypes& dtypes) {
  Json special_ids = Json::object();
  if (tokenizer.bos_id()) special_ids["bos_token_id"] = *tokenizer.bos_id();
  if (tokenizer.eos_id()) special_ids["eos_token_id"] = *tokenizer.eos_id();
  Json generation_config = generation;
  if (generation_config.empty()) {
    generation_config = special_ids;
    // Not in config.json, where it would disable the gradient of this embedding row.
    if (tokenizer.pad_id()) generation_config["pad_token_id"] = *tokenizer.pad_id();
    generation_config["do_sample"] = true;
    generation_config["temperature"] = 1.0;
  }
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const NamedTensor& weight : model.parameters()) tensors.emplace_back(weight.name, weight.value.detach());
  write_safetensors(folder / kWeights, tensors, {{"format", "pt"}}, dtypes);
  write_atomically(folder / "config.json", to_config_json(model.config(), special_ids, dtypes.common()).dump(2) + "\n");
  write_atomically(folder / "generation_config.json", generation_config.dump(2) + "\n");
  for (const auto& [name, bytes] : tokenizer.files()) write_atomically(folder / name, bytes);
}

ModelWeights read_model_folder(const std::filesystem::path& folder, at::Device device) {
  const ModelFolder opened = ModelFolder::open(folder);
  return ModelWeights::load(opened.config, opened.weights(), {device});
}

}  // namespace keel
