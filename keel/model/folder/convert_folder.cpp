#include "keel/model/folder/convert_folder.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "keel/core/error.h"
#include "keel/core/files/atomic_directory.h"
#include "keel/core/files/file.h"
#include "keel/model/formats/safetensors/safetensors.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

/// Returns why an empty folder cannot be replaced by another one, or nullptr.
const char* why_not_replaceable(const fs::path& folder) {
  struct statx found {};
  if (statx(AT_FDCWD, folder.c_str(), 0, STATX_TYPE, &found) == 0 && (found.stx_attributes & STATX_ATTR_MOUNT_ROOT))
    return "it is a mount point";
  std::error_code ignored;
  return fs::equivalent(folder, ".", ignored) ? "it is the working directory" : nullptr;
}

void check_new_or_empty(const fs::path& folder) {
  const fs::file_status status = fs::status(folder);
  if (!fs::exists(status)) {
    if (fs::is_symlink(fs::symlink_status(folder)))
      fail(ExitCode::kBadConfiguration, "cannot write the folder ", folder,
           ": it is a dangling link; remove it or choose another name");
    return;
  }
  if (!fs::is_directory(status)) {
    fail(ExitCode::kBadConfiguration, "cannot write the folder ", folder, ": a file has that name; choose another");
  }
  if (!list_directory(folder).empty()) {
    fail(ExitCode::kBadConfiguration, "cannot write the folder ", folder,
         ": it exists and is not empty; remove it or choose another name");
  }
  if (const char* why = why_not_replaceable(folder))
    fail(ExitCode::kBadConfiguration, "cannot write the folder ", folder, ": ", why,
         ", so it cannot be replaced; name a new folder in it, such as ", folder / "model");
}

void write_new_folder(const fs::path& folder, const FillFolder& fill) {
  const fs::path target = folder.has_filename() ? folder : folder.parent_path();  // without trailing slash
  check_new_or_empty(target);
  if (target.has_parent_path()) create_directories(target.parent_path());
  write_directory_atomically(target, fill);
}

void write_json(const fs::path& path, const Json& json) { write_atomically(path, json.dump(2) + "\n"); }

void check_fits(const Tensor& values, at::ScalarType dtype, const std::string& name) {
  if (dtype == at::kHalf && !values.to(dtype).isfinite().all().item<bool>() && values.isfinite().all().item<bool>())
    fail(ExitCode::kBadInput, "parameter ", name, " has values above the float16 maximum (65504); use bfloat16");
}

}  // namespace

void write_gguf_as_folder(const GgufModel& model, const fs::path& folder, at::ScalarType dtype) {
  const GgufTokenizer tokenizer = model.tokenizer();
  Json config = model.config();
  config["dtype"] = config["torch_dtype"] = dtype_name(dtype);
  write_new_folder(folder, [&](const fs::path& partial) {
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const GgufParameter& parameter : model.parameters()) {
      const Tensor values = model.read(parameter);
      check_fits(values, dtype, parameter.name);
      tensors.emplace_back(parameter.name, values.to(dtype));
    }
    write_safetensors(partial / "model.safetensors", tensors, {{"format", "pt"}});
    write_json(partial / "config.json", config);
    write_json(partial / "generation_config.json", model.generation());
    write_json(partial / "tokenizer.json", tokenizer.tokenizer);
    write_json(partial / "tokenizer_config.json", tokenizer.tokenizer_config);
  });
}

void write_model_only(const ModelWeights& model, const Tokenizer& tokenizer, const Json& generation,
                      const WeightDtypes& dtypes, const fs::path& folder) {
  write_new_folder(folder, [&](const fs::path& partial) {
    for (const NamedTensor& weight : model.parameters())
      check_fits(weight.value.detach(), dtypes.get(weight.name), weight.name);
    write_model_folder(partial, model, tokenizer, generation, dtypes);
  });
}

}  // namespace keel
