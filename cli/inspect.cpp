#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <span>

#include "cli/commands.h"
#include "keel/core/console.h"
#include "keel/core/files/atomic_directory.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "keel/core/json.h"
#include "keel/model/folder/model_folder.h"
#include "keel/model/formats/gguf/gguf_model.h"
#include "keel/model/formats/safetensors/safetensors.h"
#include "keel/record/run_folder.h"
#include "keel/train/checkpoint/checkpoint.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel::cli {
namespace {

namespace fs = std::filesystem;

/// One row of the table of tensors.
struct TableRow {
  std::string name, dtype;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
  int64_t elements = 0;
};

/// The contents of a file or folder. The members are printed in this order.
struct Contents {
  Json summary = Json::object();  // one value per key
  Json files = Json::object();    // sizes by name, for folders
  Json metadata = Json::object();
  std::vector<TableRow> tensors;
  std::vector<std::pair<std::string, Contents>> parts;  // folders inside a folder
  std::string load_error;                               // why the model cannot be loaded; empty if it can be
  std::string fault;                                    // the damage found; the exit code is then 1
};

int64_t product(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

/// Replaces long lists (vocabularies) by their length and first elements.
Json shortened(const Json& value) {
  constexpr size_t kMaxElements = 16, kShown = 4;
  if (!value.is_array() || value.size() <= kMaxElements) return value;
  return {{"length", value.size()}, {"first", Json(value.begin(), value.begin() + kShown)}};
}

Contents inspect_gguf(const fs::path& path) {
  GgufFile file = GgufFile::open(path);
  Contents contents;
  contents.summary = {
      {"kind", "gguf"}, {"version", file.version()}, {"bytes", file.bytes()}, {"alignment", file.alignment()}};
  for (const auto& [key, value] : file.metadata().tree().items()) {
    contents.metadata.get_ref<Json::object_t&>().emplace_back(key, shortened(value));
  }
  for (const GgufTensor& tensor : file.tensors()) {
    contents.tensors.push_back(
        {tensor.name, std::string(tensor.format->name), tensor.shape, tensor.end - tensor.begin, tensor.elements()});
  }
  try {
    const GgufModel model(std::move(file));
    model.tokenizer();
    contents.summary["model"] = model.config()["architectures"][0];
  } catch (const Error& error) {
    contents.summary["model"] = nullptr;  // a valid file, but not a supported model
    contents.load_error = error.what();
  }
  return contents;
}

void add_tensors(const SafetensorsFile& file, Contents& contents) {
  for (const TensorInfo& tensor : file.tensors()) {
    contents.tensors.push_back({tensor.name, safetensors_dtype_name(tensor.dtype), tensor.shape,
                                tensor.end - tensor.begin, product(tensor.shape)});
  }
}

Contents inspect_safetensors(const fs::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  Contents contents;
  contents.summary = {{"kind", "safetensors"}, {"bytes", fs::file_size(path)}};
  for (const auto& [key, value] : file.metadata()) contents.metadata[key] = value;
  add_tensors(file, contents);
  return contents;
}

/// Adds these keys of a JSON file to the summary.
void add_summary(const fs::path& path, std::span<const char* const> keys, Contents& contents) {
  const Json json = read_json_file(path);
  if (!json.is_object()) fail(ExitCode::kBadInput, path, " is not a JSON object; download it again");
  for (const char* key : keys)
    if (json.contains(key)) contents.summary[key] = json[key];
}

void add_files(const fs::path& path, Contents& contents) {
  for (const std::string& name : list_directory(path)) {
    std::error_code ignored;  // dangling links
    if (fs::is_regular_file(path / name, ignored)) contents.files[name] = fs::file_size(path / name);
  }
}

/// Adds the tensors of the files that the model is loaded from.
void add_weights(const fs::path& path, Contents& contents) {
  std::vector<fs::path> files;
  try {
    files = weight_files(path);
  } catch (const Error& error) {
    contents.load_error = error.what();
  }
  for (const fs::path& file : files) add_tensors(SafetensorsFile::open(file), contents);
}

Contents inspect_adapter(const fs::path& path) {
  Contents contents;
  contents.summary["kind"] = "adapter";
  constexpr std::array kKeys{"peft_type",
                             "base_model_name_or_path",
                             "r",
                             "lora_alpha",
                             "use_rslora",
                             "target_modules",
                             "layers_to_transform",
                             "rank_pattern",
                             "alpha_pattern",
                             "exclude_modules",
                             "modules_to_save",
                             "use_dora",
                             "bias"};
  add_summary(path / "adapter_config.json", kKeys, contents);
  add_files(path, contents);
  if (const fs::path weights = path / "adapter_model.safetensors"; path_exists(weights))
    add_tensors(SafetensorsFile::open(weights), contents);
  return contents;
}

Contents inspect_model(const fs::path& path) {
  Contents contents;
  contents.summary["kind"] = "folder";
  constexpr std::array kKeys{"architectures",       "model_type",          "dtype",
                             "torch_dtype",         "hidden_size",         "num_hidden_layers",
                             "num_attention_heads", "num_key_value_heads", "head_dim",
                             "intermediate_size",   "vocab_size",          "max_position_embeddings",
                             "tie_word_embeddings", "rope_theta",          "rope_scaling",
                             "rope_parameters",     "quantization_config"};
  add_summary(path / "config.json", kKeys, contents);
  add_files(path, contents);
  add_weights(path, contents);
  if (contents.files.contains("manifest.json")) {
    constexpr std::array kReferenceFiles{"config.json", "model.safetensors"};
    const bool checkpoint = contents.files.contains("state.json");
    if (const auto damage = checkpoint ? find_damage(path) : find_manifest_mismatch(path, kReferenceFiles))
      contents.fault = *damage;
    contents.summary["checksums"] = contents.fault.empty() ? "hold" : "do not hold";
  }
  if (path_exists(path / "adapter" / "adapter_config.json"))
    contents.parts.emplace_back("adapter", inspect_adapter(path / "adapter"));
  if (path_exists(path / "critic" / "config.json"))
    contents.parts.emplace_back("critic", inspect_model(path / "critic"));
  return contents;
}

/// Inspects a run and its newest valid checkpoint.
Contents inspect_run(const fs::path& path) {
  Contents contents;
  Json checkpoints = Json::array();
  for (const fs::path& checkpoint : finished_checkpoints(path / "checkpoints"))
    checkpoints.insert(checkpoints.begin(), checkpoint.filename().string());
  contents.summary = {{"kind", "run"}, {"checkpoints", checkpoints}};
  add_files(path, contents);
  std::vector<std::string> damaged;
  const fs::path newest = newest_checkpoint(path / "checkpoints", damaged);
  if (!damaged.empty()) contents.fault = damaged.front();
  if (!newest.empty()) contents.parts.emplace_back("checkpoints/" + newest.filename().string(), inspect_model(newest));
  const fs::path reference = path / "reference";
  if (const bool adapter = path_exists(reference / "adapter_config.json");
      adapter || path_exists(reference / "config.json"))
    contents.parts.emplace_back("reference", adapter ? inspect_adapter(reference) : inspect_model(reference));
  if (!path_exists(reference)) return contents;
  if (const auto damage = find_manifest_mismatch(reference, {}); damage && contents.fault.empty())
    contents.fault = reference.string() + " is damaged (" + *damage + ")";
  return contents;
}

/// Sets load_error if the folder cannot be loaded as a model. Reads only the headers of the weight files.
void check_loadable(const fs::path& path, Contents& contents) {
  try {
    ModelFolder::open(path).weights();
    Tokenizer::load(path);
  } catch (const Error& error) {
    contents.load_error = error.what();
  }
}

Contents inspect_folder(const fs::path& path) {
  if (path_exists(path / "config.json")) {
    Contents contents = inspect_model(path);
    check_loadable(path, contents);
    return contents;
  }
  if (path_exists(path / "adapter_config.json")) return inspect_adapter(path);
  if (is_folder(path / "checkpoints")) return inspect_run(path);
  if (RunFolder::contains_run(path)) fail(ExitCode::kBadInput, path, " is a run that has no checkpoint yet");
  fail(ExitCode::kBadInput, path,
       " has no config.json, no adapter_config.json and no checkpoints; expected the folder of ",
       "a model, an adapter or a run, a .safetensors or a .gguf file");
}

Contents inspect(const fs::path& path) {
  if (is_folder(path)) return inspect_folder(path);
  const InputFile file = InputFile::open(path);
  std::array<char, 4> magic{};
  if (file.size() >= magic.size()) file.read_at(0, std::as_writable_bytes(std::span(magic)));
  if (path.extension() == ".gguf" || std::string_view(magic.data(), 4) == "GGUF") return inspect_gguf(path);
  if (path.extension() == ".safetensors") return inspect_safetensors(path);
  fail(ExitCode::kBadInput, path, " cannot be inspected; expected a .gguf or .safetensors file or a folder");
}

/// Looks up a name that is neither a file nor a folder in the Hugging Face cache.
fs::path resolve_path(const std::string& name) {
  const std::string extension = fs::path(name).extension().string();
  return path_exists(name) || extension == ".gguf" || extension == ".safetensors" ? fs::path(name) : locate_model(name);
}

std::string shape_text(const std::vector<int64_t>& shape) { return Json(shape).dump(); }

struct Total {
  int64_t tensors = 0, elements = 0;
  uint64_t bytes = 0;
};

std::map<std::string, Total> totals_by_dtype(const std::vector<TableRow>& rows) {
  std::map<std::string, Total> totals;
  for (const TableRow& row : rows) {
    Total& total = totals[row.dtype];
    ++total.tensors;
    total.elements += row.elements;
    total.bytes += row.bytes;
  }
  return totals;
}

void print_members(const Json& members, Console& console) {
  for (const auto& [key, value] : members.items()) {
    const std::string text =
        value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
    std::string label = clip_to_width(escape_controls(key), 90);
    label.resize(std::max<size_t>(label.size(), 40), ' ');
    console.line("  " + label + " " + clip_to_width(escape_controls(text), std::max(40, console.width() - 43)));
  }
}

void print_totals(const std::vector<TableRow>& tensors, Console& console) {
  console.heading("totals");
  Total all;
  for (const auto& [dtype, total] : totals_by_dtype(tensors)) {
    console.line("  " + dtype + ": " + format_count(total.tensors) + " tensors, " + format_count(total.elements) +
                 " elements, " + format_bytes(static_cast<int64_t>(total.bytes)));
    all.tensors += total.tensors;
    all.elements += total.elements;
    all.bytes += total.bytes;
  }
  console.line("  all: " + format_count(all.tensors) + " tensors, " + format_count(all.elements) + " elements, " +
               format_bytes(static_cast<int64_t>(all.bytes)));
}

void print_contents(const fs::path& path, const Contents& contents, Console& console) {
  console.line(escape_controls(path.string()));
  print_members(contents.summary, console);
  if (!contents.files.empty()) {
    console.heading("files");
    Json sizes = Json::object();
    for (const auto& [name, bytes] : contents.files.items()) sizes[name] = format_bytes(bytes.get<int64_t>());
    print_members(sizes, console);
  }
  if (!contents.metadata.empty()) {
    console.heading("metadata");
    print_members(contents.metadata, console);
  }
  if (!contents.tensors.empty()) {
    console.heading("tensors");
    size_t name_width = 0;
    for (const TableRow& row : contents.tensors) name_width = std::max(name_width, escape_controls(row.name).size());
    for (const TableRow& row : contents.tensors) {
      std::string name = escape_controls(row.name);
      name.resize(std::max(name_width, name.size()), ' ');
      std::array<char, 128> rest{};
      std::snprintf(rest.data(), rest.size(), "  %-8s  %-20s  %12s", row.dtype.c_str(), shape_text(row.shape).c_str(),
                    format_bytes(static_cast<int64_t>(row.bytes)).c_str());
      console.line("  " + name + rest.data());
    }
  }
  if (contents.summary.value("kind", "") != "run")
    print_totals(contents.tensors, console);  // the parts of a run have their own totals
  if (!contents.load_error.empty())
    console.line("  cannot be used as a model: " + escape_controls(contents.load_error));
  for (const auto& [name, part] : contents.parts) {
    console.line("");
    print_contents(path / name, part, console);
  }
}

Json to_json(const fs::path& path, const Contents& contents) {
  Json json = {{"path", path.string()}};
  json.update(contents.summary);
  if (!contents.load_error.empty()) json["why_not"] = contents.load_error;
  if (!contents.files.empty()) json["files"] = contents.files;
  json["metadata"] = contents.metadata;
  json["tensors"] = Json::array();
  int64_t parameters = 0;
  for (const TableRow& row : contents.tensors) {
    json["tensors"].push_back({{"name", row.name}, {"dtype", row.dtype}, {"shape", row.shape}, {"bytes", row.bytes}});
    parameters += row.elements;
  }
  json["dtypes"] = Json::object();
  for (const auto& [dtype, total] : totals_by_dtype(contents.tensors)) json["dtypes"][dtype] = total.tensors;
  json["parameters"] = parameters;
  for (const auto& [name, part] : contents.parts) json["parts"][name] = to_json(path / name, part);
  if (!contents.fault.empty()) json["fault"] = contents.fault;
  return json;
}

}  // namespace

CommandHandler add_inspect(CommandLine& line) {
  const auto name = std::make_shared<std::string>();
  const auto as_json = std::make_shared<bool>(false);
  Command command =
      line.add("inspect", "Show what is in a GGUF or safetensors file, or in a model, adapter or run folder");
  command
      .option("PATH", *name,
              "A .gguf or .safetensors file, a folder (verifies the checksums of a checkpoint), or owner/name in the "
              "local Hugging Face cache")
      .required()
      .files();
  command.flag("--json", *as_json, "Print one JSON object instead of tables");
  return [name, as_json] {
    Console console;
    const fs::path path = resolve_path(*name);
    const Contents contents = inspect(path);
    if (*as_json)
      std::printf("%s\n", escape_json_controls(json_line(to_json(path, contents))).c_str());
    else
      print_contents(path, contents, console);
    if (contents.fault.empty()) return ExitCode::kDone;
    Console(stderr).line("keel: " + contents.fault);
    return ExitCode::kCheckFailed;
  };
}

}  // namespace keel::cli
