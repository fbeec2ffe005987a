#include "keel/train/config/sft_settings.h"

#include <set>

#include "keel/core/error.h"
#include "keel/core/strings.h"
#include "keel/train/config/changed_keys.h"
#include "keel/train/config/config.h"
#include "keel/train/config/foreign_names.h"

namespace keel {
namespace {

const std::set<std::string> kOfFiles = {"eval_files", "held_out", "prompt_key",   "completion_key", "loss_on",
                                        "max_tokens", "schedule", "warmup_ratio", "min_lr_ratio",   "eval_every"},
                            kOfTask = {"stop_loss", "noisy_steps", "noisy_lr", "noisy_lr_end"};

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

}  // namespace

ConfigTree as_sft(ConfigTree tree) {
  for (const char* length : {"train.steps", "train.data_epochs"}) {
    const std::string typed = typed_name(tree, length);
    if (!typed.empty() && *find_value(tree, typed) != 0)
      fail(ExitCode::kBadConfiguration, "command line: ", typed, " is a length of RL, and `keel sft` has no RL phase; ",
           "set sft.steps or sft.data_epochs, or take `keel train` for both phases");
  }
  const bool sections = (!tree.value.contains("sft") || is_section(tree, "sft")) &&
                        (!tree.value.contains("train") || is_section(tree, "train"));
  if (!sections) return tree;  // which is refused when it is loaded
  if (said(tree, "sft.files") == nullptr && is_section(tree, "data"))
    for (const char* key : {"files", "eval_files", "held_out", "prompt_key"})
      if (said(tree, std::string("sft.") + key) == nullptr) rename(tree, "data", "sft", key);
  const Json* files = said(tree, "sft.files");
  if (files == nullptr || files->empty())
    fail(ExitCode::kBadConfiguration, tree.file, tree.file.empty() ? "" : ": ",
         "`keel sft` needs rows to imitate; name their files: data.files='[\"rows.jsonl\"]' (or sft.files)");
  tree.value["train"]["steps"] = 0;
  tree.lines["train.steps"] = 0;
  return tree;
}

void choose_sft_length(const ConfigTree& tree, const OptionTable& table, SftOptions& sft) {
  if (!sft.files.empty() && !sft.data_epochs && !is_set(tree, table, "sft.steps")) sft.data_epochs = 1;
  choose_length(tree, table, "sft", sft.steps, sft.data_epochs);
}

bool reads_with_sft_files(const std::string& key) {
  static const std::set<std::string> kRead = {"chat",    "system_prompt", "special_tokens", "date",
                                              "shuffle", "bad_rows",      "check"};
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
  if (c.sft.held_out > 0 && !c.sft.eval_files.empty())
    refuse("sft.held_out is ", c.sft.held_out, ", but sft.eval_files is set; drop one");
  if (!c.has_rl() && !c.sft.has_steps())
    refuse("sft.steps is 0, and so is train.steps: the run would do nothing; set sft.data_epochs, or name data.files");
  if (!c.has_rl() && c.checkpoint.keep_best)
    refuse("checkpoint.keep_best is true, but nothing is sampled and judged in a run without RL, so that there is no ",
           "evaluation to be the best; remove it (sft/eval_loss in metrics.jsonl tells how the loss went)");
}

void refuse_typed_for_rl(const ConfigTree& tree, const Config& config) {
  if (config.has_rl()) return;
  static const std::set<std::string> kAlsoOfSft = {"lr",           "schedule", "warmup_ratio",
                                                   "min_lr_ratio", "beta2",    "max_grad_norm"};
  for (const std::string& key : changed_keys(config.optimizer)) {
    const std::string typed = typed_name(tree, "optimizer." + key);
    if (!typed.empty())
      fail(ExitCode::kBadConfiguration, "command line: ", typed,
           typed == "optimizer." + key ? "" : " (optimizer." + key + ")", " is for RL, which this run has none of; ",
           kAlsoOfSft.contains(key) ? "set sft." + key : std::string("remove it"));
  }
}

std::vector<std::string> unread_with_sft(const Config& config) {
  std::vector<std::string> notes;
  const SftOptions& sft = config.sft;
  for (const std::string& key : changed_keys(sft)) {
    if (!sft.has_steps())
      notes.push_back("sft." + key + " does nothing: sft.steps is 0, so there is no warm-up");
    else if (sft.files.empty() && kOfFiles.contains(key))
      notes.push_back("sft." + key + " does nothing: there are no sft.files");
    else if (!sft.files.empty() && kOfTask.contains(key))
      notes.push_back("sft." + key +
                      " does nothing: it is about a task's demonstrations, and rows come from sft.files");
    else if (key == "min_lr_ratio" && sft.schedule == "constant")
      notes.push_back("sft.min_lr_ratio does nothing: sft.schedule is constant");
    else if (key == "eval_every" && sft.eval_files.empty() && sft.held_out == 0)
      notes.push_back("sft.eval_every does nothing: neither sft.eval_files nor sft.held_out keeps rows for it");
  }
  if (config.has_rl()) return notes;
  std::vector<std::string> of_rl;
  const auto add = [&](const std::string& section, const std::vector<std::string>& keys) {
    static const std::set<std::string> kRead = {"steps", "tokens_per_batch", "recompute_activations",
                                                "max_skipped_updates"};
    for (const std::string& key : keys)
      if (section != "train" || !kRead.contains(key)) of_rl.push_back(section + "." + key);
  };
  add("rollout", changed_keys(config.rollout));
  add("reward", changed_keys(config.reward));
  add("objective", changed_keys(config.objective));
  add("reference", changed_keys(config.reference));
  add("critic", changed_keys(config.critic));
  add("optimizer", changed_keys(config.optimizer));
  add("train", changed_keys(config.train));
  add("eval", changed_keys(config.eval));
  if (!of_rl.empty())
    notes.push_back(joined(of_rl) + (of_rl.size() == 1 ? " does" : " do") +
                    " nothing: the run is supervised alone (train.steps is 0)");
  return notes;
}

}  // namespace keel
