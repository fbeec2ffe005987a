#include "keel/train/checkpoint/run_models.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "keel/core/files/link.h"
#include "keel/model/folder/hub_cache.h"
#include "keel/model/folder/model_folder.h"
#include "keel/model/folder/transformers_tokenizer.h"
#include "keel/record/run_ownership.h"
#include "keel/train/checkpoint/checkpoint.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

constexpr const char *kCheckpoints = "checkpoints", *kAdapterConfig = "adapter_config.json";

bool file_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Returns whether a folder has a run, and not a model.
bool is_run(const fs::path& folder) {
  return !file_exists(folder / "config.json") && !file_exists(folder / kAdapterConfig) &&
         (file_exists(folder / kCheckpoints) || file_exists(folder / "config.yaml"));
}

/// Fails for the parent or the checkpoints folder of a run, which are not models.
void refuse_run_parent_or_child(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored) || file_exists(folder / "config.json") || file_exists(folder / kAdapterConfig))
    return;
  const fs::path absolute = full_path(folder.string()), parent = absolute.parent_path();
  if (absolute.filename() == kCheckpoints && is_run(parent))
    fail(ExitCode::kBadInput, folder.string(), " belongs to a run. Set the run, ", parent.string(),
         ", or one of the checkpoints");
  for (const std::string& name : list_directory(folder))
    if (is_run(folder / name))
      fail(ExitCode::kBadInput, folder.string(), " is not a model, but a folder of runs. Set one of them, ", "such as ",
           (folder / name).string());
}

/// Returns RUN for RUN/checkpoints/best; an empty path for other names.
fs::path run_of_best(const std::string& name) {
  const fs::path path = full_path(name);
  const bool named = path.filename() == kBestCheckpoint && path.parent_path().filename() == kCheckpoints;
  return named ? path.parent_path().parent_path() : fs::path();
}

/// Resolves RUN/checkpoints/best to its current target, because the link changes later.
std::string resolve_best(const fs::path& run, const std::string& name, Console* console) {
  const fs::path checkpoints = run / kCheckpoints;
  const std::optional<std::string> target = link_target(checkpoints / kBestCheckpoint);
  if (!target || !is_checkpoint_name(*target)) return name;  // not a link written by a run
  if (console != nullptr) console->line(name + " is " + *target);
  return (checkpoints / *target).string();
}

std::string resolve_newest(const std::string& run, Console* console) {
  std::vector<std::string> notes;
  const fs::path newest = newest_checkpoint(fs::path(run) / kCheckpoints, notes);
  if (newest.empty())
    fail(ExitCode::kBadInput, run, " is a run without a valid checkpoint", notes.empty() ? "" : ": " + notes.back(),
         ". Set another run, or a model folder");
  if (console == nullptr) return newest.string();
  for (const std::string& note : notes) console->warning(note);
  console->line(run + " is a run; its newest valid checkpoint is " + newest.filename().string());
  return newest.string();
}

/// Describes an adapter's base from its adapter_config.json.
std::string describe_base(const Json& base) {
  if (!base.is_string()) return "an unknown base";
  return base == "" ? "a randomly initialised network" : base.get<std::string>();
}

constexpr const char* kSameBaseFix =
    "If the adapter was trained on exactly these weights, set base_model_name_or_path in its adapter_config.json to "
    "their folder";

Json merged_adapters(const fs::path& folder) {
  Json bases = read_json_file(folder / "config.json").value(kMergedAdapters, Json::array());
  for (Json& base : bases) base = portable_base_name(base);  // older programs wrote paths
  return bases;
}

/// The type with the lower precision.
at::ScalarType narrower(at::ScalarType one, at::ScalarType other) {
  if (one == other || other == at::kFloat) return one;
  return one == at::kFloat ? other : at::kBFloat16;
}

/// Returns whether two folders have the same weights, up to rounding of one of them; none if the first cannot be read.
std::optional<bool> same_weights(const fs::path& base, const fs::path& model) {
  std::error_code ignored;
  if (fs::equivalent(base, model, ignored)) return true;
  if (!file_exists(base / "config.json")) return std::nullopt;
  try {
    if (merged_adapters(base) != merged_adapters(model)) return false;
    const ModelFolder first = ModelFolder::open(base), second = ModelFolder::open(model);
    const WeightSource left = first.weights(), right = second.weights();
    for (const auto& [name, shape] : left.shapes) {
      const auto other = right.shapes.find(name);
      if (other == right.shapes.end()) continue;  // a tied weight may be stored twice
      const at::ScalarType type = narrower(first.dtypes.get(name), second.dtypes.get(name));
      if (shape != other->second || !left.read(name).to(type).equal(right.read(name).to(type))) return false;
    }
    return true;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string resolve_run(const std::string& name, Console* console) {
  if (name.empty()) return name;
  if (const fs::path run = run_of_best(name); !run.empty()) return resolve_best(run, name, console);
  if (is_run(name)) return resolve_newest(name, console);
  refuse_run_parent_or_child(name);
  return name;
}

}  // namespace

std::string resolve_model(const std::string& name, Console* console) {
  const std::string model = resolve_run(name, console);
  if (console == nullptr || model.empty()) return model;
  const std::string mismatch = find_tokenizer_mismatch(file_exists(model) ? fs::path(model) : cached_snapshot(model));
  if (!mismatch.empty()) console->warning(mismatch);
  return model;
}

std::string resolve_adapter(const std::string& name, Console* console) {
  if (name.empty() || file_exists(fs::path(name) / kAdapterConfig)) return name;
  const std::string checkpoint = resolve_run(name, console);
  const fs::path adapter = adapter_folder(checkpoint);
  if (file_exists(adapter / kAdapterConfig)) return adapter.string();
  if (checkpoint != name)
    fail(ExitCode::kBadInput, name, " is a run without an adapter: it trained all weights. Set it as the model");
  return name;
}

void require_adapter_base(const std::string& model, const std::string& adapter, const std::string& setting) {
  const fs::path folder = model.empty() ? fs::path() : locate_model(model);
  if (!file_exists(folder / "config.json")) return;  // random weights, or a GGUF file
  const Json base_name = read_json_file(fs::path(adapter) / kAdapterConfig).value("base_model_name_or_path", Json());
  const std::string base = describe_base(base_name);
  // Compares weights and not paths, because the same base may have several paths.
  const bool named = base_name.is_string() && base_name != "";
  const std::optional<bool> same = named ? same_weights(base, folder) : std::nullopt;
  if (same == true) return;
  const Json merged = merged_adapters(folder);
  if (!merged.empty())
    fail(ExitCode::kBadConfiguration, setting, " is ", adapter, ", which is for ", base, ", but the weights of ", model,
         " already have an adapter merged, trained on ", describe_base(merged.front()), " (", kMergedAdapters,
         " of its config.json). The same adapter would count twice. Remove ", setting,
         ", or set that base as the model. ", kSameBaseFix);
  if (same == false)
    fail(ExitCode::kBadConfiguration, setting, " is ", adapter, ", which was trained on ", base,
         ", but the weights of ", model, " are different. Set ", base, " as the model. ", kSameBaseFix);
}

bool is_checkpoint_of(const std::string& model, const std::string& run) {
  if (model.empty() || run.empty()) return false;
  const fs::path checkpoints = fs::path(full_path(model)).parent_path();
  const fs::path of_best = run_of_best(run);
  return checkpoints.filename() == kCheckpoints &&
         checkpoints.parent_path() == (of_best.empty() ? fs::path(full_path(run)) : of_best);
}

}  // namespace keel
