#include <ATen/ATen.h>

#include "keel/core/error.h"
#include "keel/core/file.h"
#include "keel/model/gguf_model.h"
#include "keel/model/model_folder.h"
#include "keel/model/safetensors.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

void check_is_free(const fs::path& folder) {
  const fs::file_status status = fs::status(folder);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status)) {
    fail(ExitCode::kBadConfiguration, "cannot write the folder ", folder, ": a file has that name; choose another");
  }
  if (!list_directory(folder).empty()) {
    fail(ExitCode::kBadConfiguration, "cannot write the folder ", folder,
         ": it exists and is not empty; remove it or choose another name");
  }
}

void write_json(const fs::path& path, const Json& json) { write_atomically(path, json.dump(2) + "\n"); }

Tensor as_dtype(const Tensor& values, at::ScalarType dtype, const std::string& name) {
  const Tensor narrow = values.to(dtype);
  if (dtype == at::kHalf && !narrow.isfinite().all().item<bool>() && values.isfinite().all().item<bool>()) {
    fail(ExitCode::kBadInput, "parameter ", name, " holds numbers beyond what float16 can hold (65504); use bfloat16");
  }
  return narrow;
}

/// Removes a half-written folder unless it was given its name.
struct Partial {
  fs::path path;
  bool done = false;
  ~Partial() {
    if (done) return;
    try {
      remove_tree(path);
    } catch (const std::exception&) {  // the error that led here says more
    }
  }
};

}  // namespace

void write_gguf_as_folder(const GgufModel& model, const fs::path& folder, at::ScalarType dtype) {
  const fs::path target = folder.has_filename() ? folder : folder.parent_path();  // without a slash at its end
  check_is_free(target);
  const GgufTokenizer tokenizer = model.tokenizer();
  Json config = model.config();
  config["dtype"] = config["torch_dtype"] = dtype_name(dtype);

  if (target.has_parent_path()) create_directories(target.parent_path());
  Partial partial{.path = target.string() + ".partial"};
  remove_tree(partial.path);  // left by a killed process
  create_directories(partial.path);
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const GgufParameter& parameter : model.parameters()) {
    tensors.emplace_back(parameter.name, as_dtype(model.read(parameter), dtype, parameter.name));
  }
  write_safetensors(partial.path / "model.safetensors", tensors, {{"format", "pt"}});
  write_json(partial.path / "config.json", config);
  write_json(partial.path / "generation_config.json", model.generation());
  write_json(partial.path / "tokenizer.json", tokenizer.tokenizer);
  write_json(partial.path / "tokenizer_config.json", tokenizer.tokenizer_config);
  rename_directory(partial.path, target);
  partial.done = true;
}

}  // namespace keel
