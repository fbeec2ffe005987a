#include <ATen/ATen.h>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/whole_folder.h"
#include "keel/model/folder/model_folder.h"
#include "keel/model/formats/gguf/gguf_model.h"
#include "keel/model/formats/safetensors/safetensors.h"

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

}  // namespace

void write_gguf_as_folder(const GgufModel& model, const fs::path& folder, at::ScalarType dtype) {
  const fs::path target = folder.has_filename() ? folder : folder.parent_path();  // without a slash at its end
  check_is_free(target);
  const GgufTokenizer tokenizer = model.tokenizer();
  Json config = model.config();
  config["dtype"] = config["torch_dtype"] = dtype_name(dtype);

  if (target.has_parent_path()) create_directories(target.parent_path());
  write_whole_folder(target, [&](const fs::path& partial) {
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const GgufParameter& parameter : model.parameters()) {
      tensors.emplace_back(parameter.name, as_dtype(model.read(parameter), dtype, parameter.name));
    }
    write_safetensors(partial / "model.safetensors", tensors, {{"format", "pt"}});
    write_json(partial / "config.json", config);
    write_json(partial / "generation_config.json", model.generation());
    write_json(partial / "tokenizer.json", tokenizer.tokenizer);
    write_json(partial / "tokenizer_config.json", tokenizer.tokenizer_config);
  });
}

}  // namespace keel
