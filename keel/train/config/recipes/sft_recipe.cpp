#include "keel/train/config/recipes/sft_recipe.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/options/read_config.h"
#include "keel/core/strings.h"
#include "keel/train/config/config.h"
#include "keel/train/config/foreign_names.h"
#include "keel/train/config/foreign_schedule.h"
#include "keel/train/config/foreign_sizes.h"
#include "keel/train/config/foreign_tools.h"

namespace keel {
namespace {

constexpr const char *kPacking = "packing", *kMaxLength = "max_length", *kAssistantOnly = "assistant_only_loss",
                     *kCompletionOnly = "completion_only_loss";
constexpr const char* kHiddenEos = "<EOS_TOKEN>";  // what transformers writes down in place of any token
const Names kBatchNames = {kPerDevice, kAccumulation, kProcesses};

// Sizes -------------------------------------------------------------------------------------------------------------

/// Rows of an update, without packing.
int64_t rows_of_update(const ConfigTree& tree) {
  constexpr int64_t kTrlsBatch = 8;
  return count_at(tree, kPerDevice, kTrlsBatch) * count_at(tree, kProcesses, 1) * count_at(tree, kAccumulation, 1);
}

bool packs(const ConfigTree& tree) {
  const Json* packing = said(tree, kPacking);
  return packing != nullptr && *packing == true;
}

/// Several names make one number: the first that is there gives it.
AliasConverter part_of_batch(std::string mine) {
  return [=](const Json& value, const ConfigTree& tree, const OptionTable&) -> Json {
    const auto first = std::find_if(kBatchNames.begin(), kBatchNames.end(),
                                    [&](const std::string& name) { return said(tree, name) != nullptr; });
    if (value.is_null() || first == kBatchNames.end() || *first != mine || packs(tree)) return kSetsNothing;
    return rows_of_update(tree);
  };
}

/// With packing an update is so many blocks of max_length tokens, whatever rows these are.
Json packing(const Json& value, const ConfigTree& tree, const OptionTable& table) {
  if (value.is_null() || value == false) return kSetsNothing;
  if (value != true) fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted true or false");
  if (said(tree, "sft.batch") != nullptr) return kSetsNothing;
  const Json length = table.get("sft.max_tokens");
  fail(ExitCode::kBadConfiguration, "got true, with which an update of TRL's has ", rows_of_update(tree), " blocks of ",
       kMaxLength, " ", length.dump(), " tokens, filled with as many rows as there is room for; Keel counts rows (and ",
       "packs them without a seam): set sft.batch behind the recipe, for about the same update that number of tokens ",
       "divided by those of a row, which `keel sft --explain` tells");
}

/// null: no row is cut.
Json longest_row(const Json& value, const ConfigTree&, const OptionTable&) { return value.is_null() ? Json(0) : value; }

// What is learned ---------------------------------------------------------------------------------------------------

Json loss_of(const Json& value, const ConfigTree& tree, const OptionTable&) {
  if (!value.is_boolean()) fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted true or false");
  const Json* completion = said(tree, kCompletionOnly);
  if (completion != nullptr && !completion->is_boolean())
    fail(ExitCode::kBadConfiguration, kCompletionOnly, " is ", completion->dump(), "; wanted true, false or null");
  const bool whole = completion != nullptr && *completion == false;
  if (value == true && whole)
    fail(ExitCode::kBadConfiguration, "got true, but ", kCompletionOnly, " is false, with which the assistant's words ",
         "in a prompt are learned, too; write the rows as messages, and remove ", kCompletionOnly);
  return value == true ? "assistant" : whole ? "all" : "completion";
}

Json read_with_another(const Json&, const ConfigTree&, const OptionTable&) { return kSetsNothing; }

Json text_column(const Json& value, const ConfigTree&, const OptionTable&) {
  return value.is_null() || value == "text" ? kSetsNothing : value;  // which is recognised, as there
}

/// AdamW, with moments in float32.
Json adamw_word(const Json& value, const ConfigTree&, const OptionTable&) {
  if (contains({"adamw_torch", "adamw_torch_fused", "adamw_hf"}, word_of(value))) return kSetsNothing;
  fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", and supervised updates are AdamW's, with moments in ",
       "float32; remove it");
}

Json order_of_rows(const Json& value, const ConfigTree&, const OptionTable&) {
  const std::string word = value.is_null() ? "random" : word_of(value);
  if (word == "random") return kSetsNothing;
  if (word == "sequential") return false;
  fail(ExitCode::kBadConfiguration, "got ", value.dump(), ", wanted random or sequential; or set data.shuffle");
}

// Rows --------------------------------------------------------------------------------------------------------------

/// A mixture of which all parts are files of their own.
Json files_of_mixture(const Json& value, const ConfigTree&, const OptionTable&) {
  constexpr const char* kWayOut = "; name the files that it stands for in sft.files";
  if (value.is_null() || (value.is_array() && value.empty())) return kSetsNothing;
  Json files = Json::array();
  for (const Json& part : value.is_array() ? value : Json::array({value})) {
    if (!part.is_object() || !part.contains("data_files"))
      fail(ExitCode::kBadConfiguration, "got ", part.dump(), ", a data set of the Hub's", kWayOut);
    for (const auto& [key, word] : part.items()) {
      const bool says_nothing = word.is_null() || key == "data_files" || (key == "split" && word == "train") ||
                                (key == "path" && contains({"json", "csv", "parquet"}, word_of(word)));
      if (!says_nothing) fail(ExitCode::kBadConfiguration, "got ", key, " ", word.dump(), " in a part of it", kWayOut);
    }
    const Json& names = part["data_files"];
    for (const Json& name : names.is_array() ? names : Json::array({names})) files.push_back(name);
  }
  return files;
}

// Names that mean nothing here --------------------------------------------------------------------------------------

const std::vector<ForeignGroup>& sft_groups() {
  using enum Fate;
  static const std::vector<ForeignGroup> kGroups = {
      {"TRL",
       kByNature,
       "rows are always packed without padding, and none sees another; remove it",
       {nullptr, false},
       "",
       {"padding_free", "eval_packing"}},
      {"TRL", kByNature, "nothing is padded; remove it", {nullptr, "<PAD_TOKEN>"}, "", {"pad_token"}},
      {"TRL",
       kRefused,
       "rows are neither split nor joined; set packing to false, and remove it",
       {nullptr, "bfd"},
       "",
       {"packing_strategy"}},
      {"TRL",
       kDropped,
       "rows longer than sft.max_tokens are left out and counted, never cut; remove it",
       {nullptr, "keep_start"},
       "",
       {"truncation_mode"}},
      {"TRL",
       kRefused,
       "what ends a completion is said by the model's folder: name it in generation_config.json (eos_token_id) and "
       "tokenizer_config.json (eos_token), and remove it",
       {nullptr, kHiddenEos},
       "",
       {"eos_token"}},
      {"TRL",
       kRefused,
       "rows are read as they stand; remove it",
       {nullptr, Json::object(), Json::object({{"skip_prepare_dataset", false}})},
       "",
       {"dataset_kwargs"}},
      {"TRL",
       kRefused,
       "the loss is the negative log-likelihood; remove it",
       {"nll", "chunked_nll"},
       "",
       {"loss_type"}},
      {"TRL",
       kDropped,
       "it is about memory: set train.recompute_activations, or lower train.tokens_per_batch",
       {nullptr, false},
       "",
       {"activation_offloading"}},
      {"TRL", kDropped, "rows are read by one process; remove it", {nullptr}, "", {"dataset_num_proc"}},
      {"TRL", kDropped, kDevices, {-1, 0, nullptr}, "", {"local_rank"}},
      {"TRL",
       kDropped,
       "the loss is measured on rows of at most train.tokens_per_batch tokens at once; remove it",
       {8},
       "",
       {"per_device_eval_batch_size"}},
      {"TRL",
       kByNature,
       "columns that are not learned from are not read; remove it",
       {nullptr, true, false},
       "",
       {"remove_unused_columns", "label_names"}},
      {"TRL",
       kByNature,
       "rows are shuffled in every pass (data.shuffle); remove it",
       {nullptr, false},
       "",
       {"shuffle_dataset"}},
      {"TRL",
       kRefused,
       "a supervised run stands for its newest checkpoint, and none is the best; remove it",
       {nullptr, false},
       "",
       {"load_best_model_at_end"}},
      {"TRL",
       kDropped,
       "a supervised run stands for its newest checkpoint; remove it",
       {nullptr},
       "",
       {"metric_for_best_model", "greater_is_better"}},
      {"TRL", kRefused, "AdamW's beta1 is 0.9 in supervised updates; remove it", {0.9}, "", {"adam_beta1"}},
      {"TRL", kRefused, "AdamW's eps is 1e-8 in supervised updates; remove it", {1e-8}, "", {"adam_epsilon"}},
      {"TRL",
       kDropped,
       "open-r1 has it for its benchmarks alone; data.system_prompt is put before the rows",
       {nullptr},
       "",
       {"system_prompt"}}};
  return kGroups;
}

void add_sft_names(OptionTable& t) {
  add_trainer_aliases(t);
  t.alias("learning_rate", "sft.lr", "TRL");
  t.alias("adam_beta2", "sft.beta2", "TRL");
  t.alias("weight_decay", "sft.weight_decay", "TRL");
  t.alias("max_grad_norm", "sft.max_grad_norm", "TRL");
  t.alias("optim", "sft.lr", "TRL", adamw_word, "sets nothing where it is AdamW; all else is refused");
  t.alias(kMaxLength, "sft.max_tokens", "TRL", longest_row, "null is 0, no limit");
  for (const std::string& name : kBatchNames)
    t.alias(name, "sft.batch", "TRL", part_of_batch(name), joined(kBatchNames, " x "));
  t.alias(kPacking, "sft.batch", "TRL", packing, "true needs sft.batch");
  const std::string whole = "false is completion, or all where completion_only_loss is false; true is assistant";
  t.alias(kAssistantOnly, "sft.loss_on", "TRL", loss_of, whole);
  t.alias(kCompletionOnly, "sft.loss_on", "TRL", read_with_another, "see assistant_only_loss");
  t.alias("dataset_name", "sft.files", "TRL", files_of_dataset("sft"), "a file; the name of a data set is refused");
  t.alias("datasets", "sft.files", "TRL", files_of_mixture, "their data_files");
  t.alias("test_split_size", "sft.held_out", "TRL", unless_null, "a share; a row's prompt decides");
  t.alias("dataset_text_field", "sft.text_key", "TRL", text_column, "text is recognised");
  t.alias("train_sampling_strategy", "data.shuffle", "TRL", order_of_rows, "sequential is false");
  add_interval_aliases(t, "sft.steps", "sft.eval_every", "");
  add_trl_schedule(t, "sft", "sft");
  add_tool_aliases(t);
  refuse_groups(t, sft_groups());
  add_left_out_of_trainers(t);
}

// Whose recipe it is ------------------------------------------------------------------------------------------------

bool knows(const OptionTable& table, const std::string& name) {
  const auto is_it = [&](const auto& entry) { return entry.name == name || name.starts_with(entry.name + "."); };
  return table.find(name) != nullptr || std::any_of(table.aliases().begin(), table.aliases().end(), is_it) ||
         std::any_of(table.refusals().begin(), table.refusals().end(),
                     [&](const Refusal& refusal) { return refusal.source != kSupervisedTrl && is_it(refusal); });
}

bool takes(ConfigTree& recipe, const char* section) { return recipe.value.erase(section) > 0; }

}  // namespace

bool take_whether_supervised(ConfigTree& recipe) {
  const bool says_sft = takes(recipe, kSftArguments), says_grpo = takes(recipe, kGrpoArguments);
  const std::string place = recipe.file.empty() ? kCommandLine : recipe.file;
  if (says_sft && says_grpo)
    fail(ExitCode::kBadConfiguration, place, ": it has arguments of both SFTConfig and GRPOConfig; keep one of them");
  if (says_sft || says_grpo) return says_sft;
  Config rl, sft;
  OptionTable of_rl, of_sft;
  rl.describe(of_rl);
  describe_for_sft(sft, of_sft);
  std::string of_rl_alone, of_sft_alone, of_any;
  Names names;
  add_leaves(recipe.value, "", names);
  for (const std::string& name : names) {
    if (of_rl.find(name) != nullptr) continue;  // ours
    const bool in_rl = knows(of_rl, name), in_sft = knows(of_sft, name);
    if (in_rl != in_sft) (in_rl ? of_rl_alone : of_sft_alone) = name;
    if (in_rl && in_sft) of_any = name;
  }
  if (!of_sft_alone.empty() && !of_rl_alone.empty())
    fail(ExitCode::kBadConfiguration, place_of(recipe, of_sft_alone), ": ", of_sft_alone, " is a name of TRL's ",
         "SFTConfig, which does not have ", of_rl_alone, " (", place_of(recipe, of_rl_alone),
         "); keep the names of one trainer");
  if (of_sft_alone.empty() && of_rl_alone.empty() && !of_any.empty())
    fail(ExitCode::kBadConfiguration, place, ": all of its names (", of_any, ", ...) are of any trainer of TRL's, so ",
         "that it could be a recipe of `trl sft` or of `trl grpo`; write SFTConfig={} or GRPOConfig={} behind it");
  return !of_sft_alone.empty();
}

void describe_for_sft(Config& config, OptionTable& table) {
  config.describe_sections(table);
  add_sft_names(table);
}

ConfigTree with_sft_defaults(ConfigTree recipe, const OptionTable& table, std::vector<std::string>& remarks) {
  const std::vector<std::pair<std::string, Json>> defaults = {
      {"learning_rate", 2e-5}, {"adam_beta2", 0.999},   {"lr_scheduler_type", "linear"}, {kPerDevice, 8},
      {kMaxLength, 1024},      {kAssistantOnly, false}, {"num_train_epochs", 3}};
  if (!is_set(recipe, table, "sft.files"))
    fail(ExitCode::kBadConfiguration, recipe.file.empty() ? kCommandLine : recipe.file,
         ": a recipe of `trl sft` names its rows: give dataset_name=FILE behind it (or sft.files)");
  const auto fill_in = [&](const std::string& name, const Json& value) {
    apply_override(recipe, name + "=" + value.dump());
    recipe.lines[name] = recipe.file.empty() ? 0 : 1;  // it was not typed beside the file
  };
  for (const auto& [name, value] : defaults) {
    const bool has_steps = name == "num_train_epochs" && is_set(recipe, table, "sft.steps");
    const auto alias = std::find_if(table.aliases().begin(), table.aliases().end(),
                                    [&, key = name](const Alias& a) { return a.name == key; });
    const bool said_here = find_value(recipe, name) != nullptr || said(recipe, alias->target) != nullptr;
    if (!said_here && !has_steps) fill_in(name, value);
  }
  fill_in("train.steps", 0);

  if (const Json* length = said(recipe, kMaxLength); length != nullptr && said(recipe, "sft.max_tokens") == nullptr)
    remarks.push_back(std::string(kMaxLength) + ": TRL cuts rows at " + length->dump() +
                      " tokens, Keel leaves longer " + "ones out, and counts them");
  if (packs(recipe))
    remarks.push_back("packing: an update of TRL's has " + std::to_string(rows_of_update(recipe)) +
                      " blocks, here it has sft.batch rows");
  if (const Json* passes = said(recipe, "num_train_epochs"); passes != nullptr && *passes != 1 && !packs(recipe))
    remarks.push_back(
        "num_train_epochs: TRL ends every pass with an update of the rows that are left, Keel the last one alone, so "
        "that there may be a few updates fewer");
  if (const Json* assistant = said(recipe, kAssistantOnly); assistant != nullptr && *assistant == true)
    remarks.push_back(
        "assistant_only_loss: TRL learns what stands between {% generation %} marks, in the model's template or in its "
        "own for it, Keel what the model's template writes behind the prompt, up to the token that ends the turn: a "
        "line end behind that is not learned here");
  else
    remarks.push_back(
        "assistant_only_loss is false, as it is by default: of conversations and texts all tokens are learned, the "
        "user's words too (sft.loss_on=assistant learns what the assistant says)");
  if (said(recipe, kProcesses) == nullptr && !packs(recipe))
    remarks.push_back(
        "num_processes is taken for 1: batches are those of one GPU; a recipe that is started on more needs "
        "num_processes=N behind it");
  if (word_at(recipe, "eos_token") == kHiddenEos)
    remarks.push_back(
        "eos_token: transformers writes <EOS_TOKEN> in place of what it is; where it is set, name that token in "
        "generation_config.json (eos_token_id) and tokenizer_config.json (eos_token) of the model's folder");
  const auto counts_passes = [&](const char* name) { return contains({"epoch", "best"}, word_at(recipe, name)); };
  if (counts_passes("save_strategy") || counts_passes("eval_strategy"))
    remarks.push_back(
        "save_strategy, eval_strategy: passes over the data are not counted here; checkpoint.every and sft.eval_every "
        "count updates");
  const bool evaluates = !contains({"", "no"}, word_at(recipe, "eval_strategy"));
  if (evaluates && !is_set(recipe, table, "sft.eval_files") && !is_set(recipe, table, "sft.held_out"))
    remarks.push_back(
        "eval_strategy: TRL measures the loss on the data set's test split, which one file does not have; set "
        "sft.eval_files, or sft.held_out");
  return recipe;
}

}  // namespace keel
