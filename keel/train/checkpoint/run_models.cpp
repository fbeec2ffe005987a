#include "keel/train/checkpoint/run_models.h"

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

std::string word_of_base(const Json& base) { return base.is_string() ? base.get<std::string>() : "its base"; }

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
  // The base that was merged into may be spelled in many ways, the folder itself is one thing.
  const Json base = read_json_file(fs::path(adapter) / kAdapterConfig).value("base_model_name_or_path", Json());
  std::error_code unseen;
  if (base.is_string() && fs::equivalent(base.get<std::string>(), model, unseen)) return;
  fail(ExitCode::kBadConfiguration, setting, " is ", adapter, ", which is for ",
       base.is_string() ? base.get<std::string>() : "a base that it does not name", ", but the weights of ", model,
       " have an adapter in them already, trained on ", word_of_base(merged.front()), " (", kMergedAdapters,
       " of its config.json): where it is the same, it would count twice; remove ", setting,
       ", or name that base as the model. Where the adapter was trained on these very weights, set ",
       "base_model_name_or_path in its ", kAdapterConfig, " to their folder");
}

bool is_checkpoint_of(const std::string& model, const std::string& run) {
  if (model.empty() || run.empty()) return false;
  const fs::path checkpoints = fs::path(full_path(model)).parent_path();
  return checkpoints.filename() == kCheckpoints && checkpoints.parent_path() == full_path(run);
}

}  // namespace keel
