#include "keel/train/config/sft_settings.h"

#include <algorithm>
#include <set>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/train/config/config.h"
#include "keel/train/config/non_default_keys.h"

namespace keel {
namespace {

const std::set<std::string> kOfFiles = {"eval_files",     "held_out",     "prompt_key", "completion_key",
                                        "text_key",       "loss_on",      "max_tokens", "schedule",
                                        "warmup_updates", "min_lr_ratio", "eval_every"},
                            kOfTask = {"stop_loss", "noisy_steps", "noisy_lr"};

/// Moves what is said under one name to another, and where it was said.
void rename(ConfigTree& tree, const std::string& section, const std::string& other, const std::string& key) {
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

/// There is no RL, however long it is said to be. Whoever types it, or says it of the only rows that there are, means
/// the supervised phase; a file with both phases means what it says, and is told.
void give_up_rl_length(const ConfigTree& tree, bool names_rows, std::vector<std::string>& notes) {
  for (const char* length : {"train.steps", "train.data_epochs"}) {
    const Json* value = find_non_null(tree, length);
    if (value == nullptr || *value == 0) continue;
    const std::string name = length;
    if (!on_command_line(tree, name) && names_rows)
      notes.push_back(name + " does nothing: `keel sft` makes the supervised phase alone");
    else
      fail(ExitCode::kBadConfiguration, place_of(tree, name), ": ", name, " is a length of RL, and `keel sft` has no ",
           "RL phase; set sft.steps or sft.data_epochs, or take `keel train` for both phases");
  }
}

/// A setting of RL's optimizer that was typed, for a run without RL.
void refuse_typed_rate(const ConfigTree& tree, const std::string& key) {
  static const std::set<std::string> kAlsoOfSft = {"lr",    "schedule",      "warmup_updates", "min_lr_ratio",
                                                   "beta2", "max_grad_norm", "weight_decay"};
  const std::string ours = "optimizer." + key;
  if (!on_command_line(tree, ours)) return;
  fail(ExitCode::kBadConfiguration, "command line: ", ours, " is for RL, which this run has none of; ",
       kAlsoOfSft.contains(key) ? "set sft." + key : std::string("remove it"));
}

}  // namespace

ConfigTree to_sft_config(ConfigTree tree, std::vector<std::string>& notes) {
  constexpr const char* kOfRows[] = {"files", "eval_files", "held_out", "prompt_key"};
  const bool sections = (!tree.value.contains("sft") || is_section(tree, "sft")) &&
                        (!tree.value.contains("train") || is_section(tree, "train"));
  if (!sections) return tree;  // which is refused when it is loaded
  const bool names_rows = find_non_null(tree, "sft.files") != nullptr && !find_non_null(tree, "sft.files")->empty();
  give_up_rl_length(tree, names_rows, notes);
  // Before their values are read: what is wrong with one would lead to another setting of RL's.
  for (const char* key : {"schedule", "min_lr_ratio"}) refuse_typed_rate(tree, key);
  for (const char* key : kOfRows) {
    const std::string of_data = std::string("data.") + key, of_sft = std::string("sft.") + key;
    const bool typed = on_command_line(tree, of_data) && !on_command_line(tree, "sft.files");
    if (names_rows && typed)
      fail(ExitCode::kBadConfiguration, "command line: ", of_data, " is about the prompts of RL where sft.files names ",
           "the rows to imitate, as ", place_of(tree, "sft.files"), " does; set ", of_sft);
    if (!names_rows && is_section(tree, "data") && find_non_null(tree, of_sft) == nullptr)
      rename(tree, "data", "sft", key);
  }
  const Json* files = find_non_null(tree, "sft.files");
  if (files == nullptr || files->empty()) {
    fail(ExitCode::kBadConfiguration, tree.file, tree.file.empty() ? "" : ": ",
         "`keel sft` needs rows to imitate; name their files: data.files='[\"rows.jsonl\"]' (or sft.files)");
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
  static const std::set<std::string> kRead = {"chat", "system_prompt", "shuffle", "bad_rows", "chat_template_kwargs"};
  return kRead.contains(key);
}

void check_sft(const Config& c) {
  const auto refuse = [](const auto&... parts) { fail(ExitCode::kBadConfiguration, parts...); };
  const bool files = !c.sft.files.empty();
  if (!files && c.sft.steps > 0 && !(c.data.files.empty() && c.data.eval_files.empty()))
    refuse("sft.steps is ", c.sft.steps,
           ", but prompts come from data.files, which have no demonstrations; name rows to imitate with sft.files, or ",
           "set sft.steps to 0");
  if (!files && c.sft.data_epochs)
    refuse("sft.data_epochs is ", *c.sft.data_epochs, ", but no sft.files are set, and the demonstrations of a task ",
           "have no end that it could count; set sft.steps, or sft.files");
  if (!files && !c.sft.eval_files.empty())
    refuse("sft.eval_files is set, but sft.files, what to train on, is not; set it");
  if (!c.sft.text_key.empty() && !(c.sft.prompt_key.empty() && c.sft.answer_key.empty()))
    refuse("sft.text_key is ", c.sft.text_key, ", a column that is learned whole, but sft.",
           c.sft.prompt_key.empty() ? "completion_key" : "prompt_key", " is set as well; drop one");
  for (const std::string& file : c.sft.files)
    if (c.has_rl() && c.sft.held_out < c.data.held_out && std::ranges::count(c.data.files, file))
      refuse("data.held_out is ", c.data.held_out, ", but ", file, " is in sft.files too, where ",
             c.sft.held_out == 0 ? "all its rows are" : "more of its rows are",
             " learned, so that evaluations would be on rows the model was shown; set sft.held_out to ",
             c.data.held_out, ", which keeps the same prompts back");
  if (!c.has_rl() && !c.sft.has_steps())
    refuse("sft.steps is 0, and so is train.steps: the run would do nothing; set sft.data_epochs, or name data.files");
  if (c.sft.noisy_lr.size() != 2)
    refuse("sft.noisy_lr has ", c.sft.noisy_lr.size(),
           " numbers; expected 2, at the first and at the last noisy update");
  if (!c.has_rl() && c.checkpoint.keeps_best())
    refuse("checkpoint.best_metric is ", c.checkpoint.best_metric, ", but nothing is sampled and judged in a run ",
           "without RL, so that there is no evaluation to be the best; remove it (sft/eval_loss in metrics.jsonl tells "
           "how the loss went)");
}

void refuse_typed_for_rl(const ConfigTree& tree, const Config& config) {
  if (config.has_rl()) return;
  for (const std::string& key : non_default_keys(config.optimizer)) refuse_typed_rate(tree, key);
}

std::vector<std::string> unused_sft_settings(const Config& config) {
  std::vector<std::string> notes;
  const SftOptions& sft = config.sft;
  for (const std::string& key : non_default_keys(sft)) {
    if (!sft.has_steps())
      notes.push_back("sft." + key + " does nothing: sft.steps is 0, so there is no warm-up");
    else if (sft.files.empty() && kOfFiles.contains(key))
      notes.push_back("sft." + key + " does nothing: there are no sft.files");
    else if (!sft.files.empty() && kOfTask.contains(key))
      notes.push_back("sft." + key +
                      " does nothing: it is about a task's demonstrations, and rows come from sft.files");
    else if (key == "min_lr_ratio" && sft.optimizer.schedule == "constant")
      notes.push_back("sft.min_lr_ratio does nothing: sft.schedule is constant");
    else if (key == "eval_every" && sft.eval_files.empty() && sft.held_out == 0)
      notes.push_back("sft.eval_every does nothing: neither sft.eval_files nor sft.held_out keeps rows for it");
  }
  for (const auto& [section, files] : {std::pair{"sft", &sft.eval_files}, {"data", &config.data.eval_files}})
    for (const std::string& file : *files)
      if (sft.has_steps() && std::ranges::count(sft.files, file))
        notes.push_back(std::string(section) + ".eval_files has " + file +
                        ", which is in sft.files too: its rows are learned, and say nothing of others");
  if (config.has_rl()) return notes;
  std::vector<std::string> of_rl;
  const auto add = [&](const std::string& section, const std::vector<std::string>& keys) {
    static const std::set<std::string> kRead = {"steps", "tokens_per_batch", "recompute_activations"};
    for (const std::string& key : keys)
      if (section != "train" || !kRead.contains(key)) of_rl.push_back(section + "." + key);
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
  std::vector<std::string> of_data = non_default_keys(config.data);
  std::erase_if(of_data, applies_to_sft_files);
  add("data", of_data);
  if (!of_rl.empty())
    notes.push_back(joined(of_rl) + (of_rl.size() == 1 ? " does" : " do") +
                    " nothing: the run is supervised alone (train.steps is 0)");
  return notes;
}

}  // namespace keel
