#include "keel/train/config/sft_settings.h"

#include <algorithm>
#include <set>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/train/config/config.h"
#include "keel/train/config/non_default_keys.h"

namespace keel {
namespace {

const std::set<std::string> kFileKeys = {"eval_files",     "held_out",     "prompt_key", "completion_key",
                                         "text_key",       "loss_on",      "max_tokens", "schedule",
                                         "warmup_updates", "min_lr_ratio", "eval_every"},
                            kTaskKeys = {"stop_loss", "noisy_steps", "noisy_lr"};

/// Moves a setting and its line numbers to another section.
void move_setting(ConfigTree& tree, const std::string& section, const std::string& other, const std::string& key) {
  if (!tree.value[section].contains(key)) return;
  const Json value = tree.value[section][key];
  tree.value[section].erase(key);
  tree.value[other][key] = value;
  const std::string before = section + "." + key, now = other + "." + key;
  std::map<std::string, int> lines;
  for (const auto& [path, line] : tree.lines)
    lines[path == before || path.starts_with(before + ".") ? now + path.substr(before.size()) : path] = line;
  tree.lines = std::move(lines);
}

bool is_section(const ConfigTree& tree, const std::string& name) {
  return tree.value.contains(name) && tree.value[name].is_object();
}

/// Handles a length of RL, which `keel sft` does not have. It is ignored with a note if a file sets it for a run with
/// both phases, and an error otherwise: then the length of the supervised phase must have been meant.
void check_rl_length(const ConfigTree& tree, bool names_rows, std::vector<std::string>& notes) {
  for (const char* length : {"train.steps", "train.data_epochs"}) {
    const Json* value = find_non_null(tree, length);
    if (value == nullptr || *value == 0) continue;
    const std::string name = length;
    if (!on_command_line(tree, name) && names_rows)
      notes.push_back(name + " does nothing: `keel sft` runs the supervised phase only");
    else
      fail(ExitCode::kBadConfiguration, location_of(tree, name), ": ", name, " is the length of the RL phase, which ",
           "`keel sft` does not run; set sft.steps or sft.data_epochs, or use `keel train` for both phases");
  }
}

/// Fails if the command line sets optimizer.KEY, for a run without RL.
void reject_rl_optimizer_key(const ConfigTree& tree, const std::string& key) {
  static const std::set<std::string> kSftKeys = {"lr",    "schedule",      "warmup_updates", "min_lr_ratio",
                                                 "beta2", "max_grad_norm", "weight_decay"};
  const std::string setting = "optimizer." + key;
  if (!on_command_line(tree, setting)) return;
  fail(ExitCode::kBadConfiguration, "command line: ", setting, " applies to RL, and this run has no RL phase; ",
       kSftKeys.contains(key) ? "set sft." + key : std::string("remove it"));
}

}  // namespace

ConfigTree to_sft_config(ConfigTree tree, std::vector<std::string>& notes) {
  constexpr const char* kRowKeys[] = {"files", "eval_files", "held_out", "prompt_key"};
  const bool are_sections = (!tree.value.contains("sft") || is_section(tree, "sft")) &&
                            (!tree.value.contains("train") || is_section(tree, "train"));
  if (!are_sections) return tree;  // load_config() reports the error
  const bool names_rows = find_non_null(tree, "sft.files") != nullptr && !find_non_null(tree, "sft.files")->empty();
  check_rl_length(tree, names_rows, notes);
  // Checked before the values are read, whose errors would suggest other RL settings.
  for (const char* key : {"schedule", "min_lr_ratio"}) reject_rl_optimizer_key(tree, key);
  for (const char* key : kRowKeys) {
    const std::string data_key = std::string("data.") + key, sft_key = std::string("sft.") + key;
    const bool typed = on_command_line(tree, data_key) && !on_command_line(tree, "sft.files");
    if (names_rows && typed)
      fail(ExitCode::kBadConfiguration, "command line: ", data_key,
           " applies to RL prompts if sft.files is set, as in ", location_of(tree, "sft.files"), "; set ", sft_key);
    if (!names_rows && is_section(tree, "data") && find_non_null(tree, sft_key) == nullptr)
      move_setting(tree, "data", "sft", key);
  }
  const Json* files = find_non_null(tree, "sft.files");
  if (files == nullptr || files->empty()) {
    fail(ExitCode::kBadConfiguration, tree.file, tree.file.empty() ? "" : ": ",
         "`keel sft` needs training rows; set data.files='[\"rows.jsonl\"]' (or sft.files)");
  }
  tree.value["train"]["steps"] = 0;
  tree.lines["train.steps"] = 0;
  return tree;
}

void resolve_sft_length(const ConfigTree& tree, SftOptions& sft) {
  if (!sft.files.empty() && !sft.data_epochs && find_non_null(tree, "sft.steps") == nullptr) sft.data_epochs = 1;
  resolve_length(tree, "sft", sft.steps, sft.data_epochs);
}

bool applies_to_sft_files(const std::string& key) {
  static const std::set<std::string> kKeys = {"chat", "system_prompt", "shuffle", "bad_rows", "chat_template_kwargs"};
  return kKeys.contains(key);
}

void check_sft(const Config& c) {
  const auto refuse = [](const auto&... parts) { fail(ExitCode::kBadConfiguration, parts...); };
  const bool files = !c.sft.files.empty();
  if (!files && c.sft.steps > 0 && !(c.data.files.empty() && c.data.eval_files.empty()))
    refuse("sft.steps is ", c.sft.steps,
           ", but data.files has prompts without demonstrations; set sft.files, or set sft.steps to 0");
  if (!files && c.sft.data_epochs)
    refuse("sft.data_epochs is ", *c.sft.data_epochs, ", but sft.files is not set, and a task generates ",
           "demonstrations without end; set sft.steps, or sft.files");
  if (!files && !c.sft.eval_files.empty()) refuse("sft.eval_files is set, but sft.files is not; set it");
  if (!c.sft.text_key.empty() && !(c.sft.prompt_key.empty() && c.sft.answer_key.empty()))
    refuse("sft.text_key is ", c.sft.text_key, ", and sft.", c.sft.prompt_key.empty() ? "completion_key" : "prompt_key",
           " is set too; set either a text column, or prompt and completion columns");
  for (const std::string& file : c.sft.files)
    if (c.has_rl() && c.sft.held_out < c.data.held_out && std::ranges::count(c.data.files, file))
      refuse("data.held_out is ", c.data.held_out, ", but ", file,
             " is in sft.files too, so evaluations would use rows ", "of the supervised phase; set sft.held_out to ",
             c.data.held_out, ", which holds out the same prompts");
  if (!c.has_rl() && !c.sft.has_steps())
    refuse("sft.steps and train.steps are 0, so the run would do nothing; set sft.data_epochs, or data.files");
  if (c.sft.noisy_lr.size() != 2)
    refuse("sft.noisy_lr has ", c.sft.noisy_lr.size(), " numbers; expected 2, for the first and the last noisy update");
  if (!c.has_rl() && c.checkpoint.keeps_best())
    refuse("checkpoint.best_metric is ", c.checkpoint.best_metric, ", but a run without RL has no evaluations; ",
           "remove it (metrics.jsonl has the held-out loss, sft/eval_loss)");
}

void reject_rl_optimizer(const ConfigTree& tree, const Config& config) {
  if (config.has_rl()) return;
  for (const std::string& key : non_default_keys(config.optimizer)) reject_rl_optimizer_key(tree, key);
}

std::vector<std::string> unused_sft_settings(const Config& config) {
  std::vector<std::string> notes;
  const SftOptions& sft = config.sft;
  for (const std::string& key : non_default_keys(sft)) {
    if (!sft.has_steps())
      notes.push_back("sft." + key + " does nothing: sft.steps is 0");
    else if (sft.files.empty() && kFileKeys.contains(key))
      notes.push_back("sft." + key + " does nothing: sft.files is not set");
    else if (!sft.files.empty() && kTaskKeys.contains(key))
      notes.push_back("sft." + key +
                      " does nothing: it applies to demonstrations of a task, and rows come from sft.files");
    else if (key == "min_lr_ratio" && sft.optimizer.schedule == "constant")
      notes.push_back("sft.min_lr_ratio does nothing: sft.schedule is constant");
    else if (key == "eval_every" && sft.eval_files.empty() && sft.held_out == 0)
      notes.push_back("sft.eval_every does nothing: neither sft.eval_files nor sft.held_out is set");
  }
  for (const auto& [section, files] : {std::pair{"sft", &sft.eval_files}, {"data", &config.data.eval_files}})
    for (const std::string& file : *files)
      if (sft.has_steps() && std::ranges::count(sft.files, file))
        notes.push_back(std::string(section) + ".eval_files has " + file +
                        ", which is in sft.files too: the evaluation uses training rows");
  if (config.has_rl()) return notes;
  std::vector<std::string> rl_settings;
  const auto add = [&](const std::string& section, const std::vector<std::string>& keys) {
    static const std::set<std::string> kSftKeys = {"steps", "tokens_per_batch", "recompute_activations"};
    for (const std::string& key : keys)
      if (section != "train" || !kSftKeys.contains(key)) rl_settings.push_back(section + "." + key);
  };
  add("rollout", non_default_keys(config.rollout));
  add("reward", non_default_keys(config.reward));
  add("objective", non_default_keys(config.objective));
  add("reference", non_default_keys(config.reference));
  add("critic", non_default_keys(config.critic));
  add("optimizer", non_default_keys(config.optimizer));
  add("train", non_default_keys(config.train));
  add("eval", non_default_keys(config.eval));
  add("task", non_default_keys(config.task));
  std::vector<std::string> data_keys = non_default_keys(config.data);
  std::erase_if(data_keys, applies_to_sft_files);
  add("data", data_keys);
  if (!rl_settings.empty())
    notes.push_back(joined(rl_settings) + (rl_settings.size() == 1 ? " does" : " do") +
                    " nothing: the run has no RL phase (train.steps is 0)");
  return notes;
}

}  // namespace keel
