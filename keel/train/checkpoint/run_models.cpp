#include "keel/train/checkpoint/run_models.h"

#include <ATen/ATen.h>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "keel/core/files/link.h"
#include "keel/model/folder/model_folder.h"
#include "keel/record/run_ownership.h"
#include "keel/train/checkpoint/checkpoint.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

constexpr const char *kCheckpoints = "checkpoints", *kAdapterConfig = "adapter_config.json";

bool there_is(const fs::path& path) {
  std::error_code unseen;
  return fs::exists(path, unseen);
}

/// A folder that a run was started in, and no model's.
bool is_run(const fs::path& folder) {
  return !there_is(folder / "config.json") && !there_is(folder / kAdapterConfig) &&
         (there_is(folder / kCheckpoints) || there_is(folder / "config.yaml"));
}

/// A folder just above or below that of a run is no model's, and there is nothing in it to convert.
void refuse_beside_run(const fs::path& folder) {
  std::error_code unseen;
  if (!fs::is_directory(folder, unseen) || there_is(folder / "config.json") || there_is(folder / kAdapterConfig))
    return;
  const fs::path whole = full_path(folder.string()), above = whole.parent_path();
  if (whole.filename() == kCheckpoints && is_run(above))
    fail(ExitCode::kBadInput, folder.string(), " belongs to a run; name the run, ", above.string(),
         ", or one of the checkpoints");
  for (const std::string& name : list_directory(folder))
    if (is_run(folder / name))
      fail(ExitCode::kBadInput, folder.string(), " is no model, but a folder with runs in it; name one of them, ",
           "such as ", (folder / name).string());
}

/// The folder of the run whose best checkpoint is named: RUN of RUN/checkpoints/best; nothing where that is not named.
fs::path run_of_best(const std::string& name) {
  const fs::path path = full_path(name);
  const bool named = path.filename() == kBestCheckpoint && path.parent_path().filename() == kCheckpoints;
  return named ? path.parent_path().parent_path() : fs::path();
}

/// The link may lead elsewhere tomorrow; what it leads to today has a name of its own.
std::string best_of(const fs::path& run, const std::string& name, Console* console) {
  const fs::path checkpoints = run / kCheckpoints;
  const std::optional<std::string> target = link_target(checkpoints / kBestCheckpoint);
  if (!target || !is_checkpoint_name(*target)) return name;  // somebody's own folder, or nothing
  if (console != nullptr) console->line(name + " is " + *target);
  return (checkpoints / *target).string();
}

std::string newest_of(const std::string& run, Console* console) {
  std::vector<std::string> notes;
  const fs::path newest = newest_checkpoint(fs::path(run) / kCheckpoints, notes);
  if (newest.empty())
    fail(ExitCode::kBadInput, run, " is a run without a sound checkpoint", notes.empty() ? "" : ": " + notes.back(),
         "; name another run, or a model's folder");
  if (console == nullptr) return newest.string();
  for (const std::string& note : notes) console->warning(note);
  console->line(run + " is a run; its newest sound checkpoint is " + newest.filename().string());
  return newest.string();
}

/// Of what an adapter was trained on, as its configuration names it.
std::string word_of_base(const Json& base) {
  if (!base.is_string()) return "a base that it does not name";
  return base == "" ? "a network made from nothing" : base.get<std::string>();
}

constexpr const char* kWhereMeant =
    "Where the adapter was trained on these very weights, set base_model_name_or_path in its adapter_config.json to "
    "their folder";

Json merged_adapters(const fs::path& folder) {
  Json bases = read_json_file(folder / "config.json").value(kMergedAdapters, Json::array());
  for (Json& base : bases) base = portable_base_name(base);  // older programs wrote paths
  return bases;
}

/// The type that keeps least of a number.
at::ScalarType narrower(at::ScalarType one, at::ScalarType other) {
  if (one == other || other == at::kFloat) return one;
  return one == at::kFloat ? other : at::kBFloat16;
}

/// Whether two folders hold the same weights, one perhaps rounded; nothing if the first cannot be read.
std::optional<bool> same_weights(const fs::path& base, const fs::path& model) {
  std::error_code unseen;
  if (fs::equivalent(base, model, unseen)) return true;
  if (!there_is(base / "config.json")) return std::nullopt;
  try {
    if (merged_adapters(base) != merged_adapters(model)) return false;
    const ModelFolder first = ModelFolder::open(base), second = ModelFolder::open(model);
    const WeightSource left = first.weights(), right = second.weights();
    for (const auto& [name, shape] : left.shapes) {
      const auto other = right.shapes.find(name);
      if (other == right.shapes.end()) continue;  // a tied weight may be stored twice
      const at::ScalarType type = narrower(first.dtypes.of(name), second.dtypes.of(name));
      if (shape != other->second || !left.read(name).to(type).equal(right.read(name).to(type))) return false;
    }
    return true;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::string resolve_model(const std::string& name, Console* console) {
  if (name.empty()) return name;
  if (const fs::path run = run_of_best(name); !run.empty()) return best_of(run, name, console);
  if (is_run(name)) return newest_of(name, console);
  refuse_beside_run(name);
  return name;
}

std::string resolve_adapter(const std::string& name, Console* console) {
  if (name.empty() || there_is(fs::path(name) / kAdapterConfig)) return name;
  const std::string checkpoint = resolve_model(name, console);
  const fs::path adapter = adapter_folder(checkpoint);
  if (there_is(adapter / kAdapterConfig)) return adapter.string();
  if (checkpoint != name)
    fail(ExitCode::kBadInput, name, " is a run that has no adapter: it trained all weights; name it as the model");
  return name;
}

void require_adapter_base(const std::string& model, const std::string& adapter, const std::string& setting) {
  const fs::path folder = model.empty() ? fs::path() : locate_model(model);
  if (!there_is(folder / "config.json")) return;  // a network from nothing, or a GGUF file
  const Json said = read_json_file(fs::path(adapter) / kAdapterConfig).value("base_model_name_or_path", Json());
  const std::string base = word_of_base(said);
  // The base may be spelled in many ways, the folder itself is one thing, and so are its weights.
  const bool named = said.is_string() && said != "";
  const std::optional<bool> same = named ? same_weights(base, folder) : std::nullopt;
  if (same == true) return;
  const Json merged = merged_adapters(folder);
  if (!merged.empty())
    fail(ExitCode::kBadConfiguration, setting, " is ", adapter, ", which is for ", base, ", but the weights of ", model,
         " have an adapter in them already, trained on ", word_of_base(merged.front()), " (", kMergedAdapters,
         " of its config.json): where it is the same, it would count twice; remove ", setting,
         ", or name that base as the model. ", kWhereMeant);
  if (same == false)
    fail(ExitCode::kBadConfiguration, setting, " is ", adapter, ", which was trained on ", base,
         ", and the weights of ", model, " are others; name ", base, " as the model. ", kWhereMeant);
}

bool is_checkpoint_of(const std::string& model, const std::string& run) {
  if (model.empty() || run.empty()) return false;
  const fs::path checkpoints = fs::path(full_path(model)).parent_path();
  const fs::path of_best = run_of_best(run);
  return checkpoints.filename() == kCheckpoints &&
         checkpoints.parent_path() == (of_best.empty() ? fs::path(full_path(run)) : of_best);
}

}  // namespace keel
