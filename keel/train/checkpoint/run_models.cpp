#include "keel/train/checkpoint/run_models.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
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

}  // namespace

std::string model_named(const std::string& name, Console* console) {
  return !name.empty() && is_run(name) ? newest_of(name, console) : name;
}

std::string adapter_named(const std::string& name, Console* console) {
  if (name.empty() || there_is(fs::path(name) / kAdapterConfig)) return name;
  const std::string checkpoint = model_named(name, console);
  const fs::path adapter = adapter_folder(checkpoint);
  if (there_is(adapter / kAdapterConfig)) return adapter.string();
  if (checkpoint != name)
    fail(ExitCode::kBadInput, name, " is a run that has no adapter: it trained all weights; name it as the model");
  return name;
}

void refuse_adapter_twice(const std::string& model, const std::string& adapter, const std::string& setting) {
  const fs::path config = fs::path(model) / "config.json";
  if (!there_is(config)) return;  // not of our making
  const Json merged = read_json_file(config).value(kMergedAdapters, Json::array());
  if (merged.empty()) return;
  const Json base = read_json_file(fs::path(adapter) / kAdapterConfig).value("base_model_name_or_path", Json());
  if (std::find(merged.begin(), merged.end(), base) == merged.end()) return;
  fail(ExitCode::kBadConfiguration, setting, " is ", adapter, ", but the weights of ", model,
       " come from a run that trained an adapter on ", base.is_string() ? base.get<std::string>() : "its base",
       ", and have that adapter in them already (", kMergedAdapters, " of its config.json): it would count twice; ",
       "remove ", setting, ", or name that base as the model");
}

bool is_checkpoint_of(const std::string& model, const std::string& run) {
  if (model.empty() || run.empty()) return false;
  const fs::path checkpoints = fs::path(full_path(model)).parent_path();
  return checkpoints.filename() == kCheckpoints && checkpoints.parent_path() == full_path(run);
}

}  // namespace keel
