#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/nearest.h"
#include "keel/core/options/read_config.h"
#include "keel/core/strings.h"
#include "keel/train/config/foreign_names.h"
#include "keel/train/config/foreign_objective.h"
#include "keel/train/config/foreign_remarks.h"

namespace keel {

bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void add_leaves(const Json& node, const std::string& path, Names& leaves) {
  if (!node.is_object() || node.empty()) return leaves.push_back(path);
  for (const auto& [key, value] : node.items()) add_leaves(value, path.empty() ? key : path + "." + key, leaves);
}

const Json* said(const ConfigTree& tree, const std::string& name) {
  const Json* value = find_value(tree, name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string word_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string word_at(const ConfigTree& tree, const std::string& name) {
  const Json* value = said(tree, name);
  return value == nullptr ? "" : word_of(*value);
}

Json unless_null(const Json& value, const ConfigTree&, const OptionTable&) {
  return value.is_null() ? kSetsNothing : value;
}

Json list_of_names(const Json& value, const ConfigTree&, const OptionTable&) {
  if (value.is_null()) return kSetsNothing;
  return value.is_array() ? value : Json::array({value});
}

AliasConverter unless_said_by(std::string newer_name) {
  return [newer_name = std::move(newer_name)](const Json& value, const ConfigTree& tree, const OptionTable&) {
    const Json* newer = said(tree, newer_name);
    return value.is_null() || (newer != nullptr && *newer == value) ? kSetsNothing : value;
  };
}

AliasConverter files_of_dataset(std::string section) {
  return [section = std::move(section)](const Json& value, const ConfigTree&, const OptionTable&) -> Json {
    if (value.is_null()) return kSetsNothing;
    const std::string name = word_of(value);
    for (const char* ending : {".jsonl", ".json", ".csv", ".parquet", ".gz", ".zst"})
      if (name.ends_with(ending)) return Json::array({name});
    fail(ExitCode::kBadConfiguration, "got ", value.dump(),
         ", a data set of the Hub's, and Keel reads files: give the name of one (.jsonl, .json, .csv, .parquet), or "
         "set ",
         section, ".files in its place (keel import FILE ~dataset_name ", section, ".files=...), and ", section,
         ".eval_files for evaluations");
  };
}

bool sets_something(const Alias& alias, const Json& value, const ConfigTree& tree, const OptionTable& table) {
  if (!alias.converter) return true;
  try {
    return !alias.converter(value, tree, table).is_discarded();
  } catch (const std::exception&) {  // told where it is read
    return true;
  }
}

bool is_set(const ConfigTree& tree, const OptionTable& table, const std::string& ours) {
  if (said(tree, ours) != nullptr) return true;
  return std::any_of(table.aliases().begin(), table.aliases().end(), [&](const Alias& alias) {
    const Json* value = alias.target == ours ? said(tree, alias.name) : nullptr;
    return value != nullptr && sets_something(alias, *value, tree, table);
  });
}

bool on_command_line(const ConfigTree& tree, const std::string& name) {
  const auto line = tree.lines.find(name);
  return line != tree.lines.end() && line->second == 0;
}

bool ours_names_the_method(const ConfigTree& tree, const std::string& loss) {
  constexpr const char* kOurs = "objective.method";
  if (said(tree, kOurs) == nullptr) return false;
  const bool overridden = loss != kOurs && said(tree, loss) != nullptr && on_command_line(tree, loss);
  return !overridden || on_command_line(tree, kOurs);
}

namespace {

// The programs ------------------------------------------------------------------------------------------------------

/// A default of another program's, and for which of its losses it matters (none: for all).
struct ForeignDefault {
  std::string name;
  Json value;
  Names losses = {};
  std::string ours = {};       // our key for it, which says it as well
  bool with_gae = false;       // only beside a critic
  Names instead = {};          // names that, where all of them are there, leave it nothing to say
  std::string overrules = {};  // a name that the program lets this default win over
};

struct Program {
  std::string name;
  std::string loss;       // its name for the loss
  Names marks;            // names, or beginnings of names that end with a dot, that only its configurations have
  std::string advantage;  // its name for the advantages; empty: it always has a critic
  std::string no_critic;  // its word for group advantages
  std::vector<ForeignDefault> defaults;
};

const Names kVerlAggregated = {"vanilla", "dppo_tv", "dppo_kl", "gspo", "gpg", "cispo", "dro"};

const std::vector<Program>& programs() {
  static const std::vector<Program> kPrograms = {
      {.name = "verl",
       .loss = kLossMode,
       .marks = {"actor_rollout_ref.", "algorithm."},
       .advantage = kAdvEstimator,
       .no_critic = "grpo",
       .defaults = {{kLossMode, "vanilla"},
                    {kAdvEstimator, "gae", {}, "objective.advantage"},
                    {kLossAggMode, "token-mean", kVerlAggregated, "objective.aggregation"},
                    {kClipRatioLow, 0.2, kVerlBounded, "objective.delta_low", false, {}, kClipRatio},
                    {kClipRatioHigh, 0.2, kVerlBounded, "objective.delta_high", false, {}, kClipRatio},
                    {kClipRatioC, 3.0, kVerlWithC},
                    {kTauPositive, 1.0, {"sapo"}},
                    {kTauNegative, 1.05, {"sapo"}},
                    {"algorithm.gamma", 1.0, {}, "critic.gamma", /*with_gae=*/true},
                    {"algorithm.lam", 1.0, {}, "critic.lambda", /*with_gae=*/true},
                    {"critic.cliprange_value", 0.5, {}, "critic.value_clip", /*with_gae=*/true}}},
      {.name = "TRL",
       .loss = "loss_type",
       .marks = {"loss_type",
                 "epsilon",
                 "epsilon_high",
                 "delta",
                 "beta",
                 kSamplingLevel,
                 "scale_rewards",
                 "sapo_temperature_pos",
                 "sapo_temperature_neg",
                 "vespo_k_pos",
                 "vespo_lambda_pos",
                 "vespo_k_neg",
                 "vespo_lambda_neg",
                 "entropy_coef",
                 "num_generations",
                 "num_generations_eval",
                 "max_completion_length",
                 "generation_batch_size",
                 "steps_per_generation",
                 "num_iterations",
                 "mask_truncated_completions"},
       .advantage = "scale_rewards",
       .no_critic = "group",
       .defaults = {{"loss_type", "dapo"},
                    {kSamplingLevel, "token"},
                    {"scale_rewards", "group", {}, "objective.advantage"},
                    {"epsilon", 0.2, kTrlClipped},
                    {"sapo_temperature_pos", 1.0, {"sapo"}},
                    {"sapo_temperature_neg", 1.05, {"sapo"}},
                    {"vespo_k_pos", 2.0, {"vespo"}},
                    {"vespo_lambda_pos", 3.0, {"vespo"}},
                    {"vespo_k_neg", 3.0, {"vespo"}},
                    {"vespo_lambda_neg", 2.0, {"vespo"}}}},
      {.name = "TRL's PPO",
       .loss = "objective.method",  // it has one loss and no name for it
       .marks = {"num_ppo_epochs", "cliprange", "cliprange_value", "lam", "vf_coef", "kl_coef"},
       .advantage = "",
       .no_critic = "",
       .defaults = {{"objective.method", "ppo_gae"},
                    {"cliprange", 0.2},
                    {"kl_coef", 0.05, {}, "reference.kl_in_reward"}}},
      {.name = "OpenRLHF",
       .loss = "policy_loss_type",
       .marks = {"policy_loss_type", "advantage_estimator", "eps_clip", "eps_clip_low_high", "dual_clip", "pretrain",
                 "prompt_data", "remote_rm_url", "n_samples_per_prompt", "generate_max_len", "rollout_batch_size",
                 "actor_learning_rate", "critic_learning_rate", "dynamic_filtering"},
       .advantage = "advantage_estimator",
       .no_critic = "group_norm",
       .defaults = {{"policy_loss_type", "ppo"},
                    {"advantage_estimator", "gae", {}, "objective.advantage"},
                    {"eps_clip", 0.2, {}, "", false, {"eps_clip_low_high"}},
                    {"gamma", 1.0, {}, "critic.gamma", /*with_gae=*/true},
                    {"lambd", 1.0, {}, "critic.lambda", /*with_gae=*/true},
                    {"value_clip", 0.5, {}, "critic.value_clip", /*with_gae=*/true}}}};
  return kPrograms;
}

// Filling in --------------------------------------------------------------------------------------------------------

bool is_alias(const OptionTable& table, const std::string& name) {
  return std::any_of(table.aliases().begin(), table.aliases().end(),
                     [&](const Alias& alias) { return alias.name == name; });
}

bool is_mark(const Program& program, const std::string& name) {
  return std::any_of(program.marks.begin(), program.marks.end(), [&](const std::string& mark) {
    return mark.ends_with('.') ? name.starts_with(mark) : name == mark;
  });
}

/// Whether a name was typed beside a file.
bool is_typed_beside_file(const ConfigTree& tree, const std::string& name) {
  return !tree.file.empty() && on_command_line(tree, name);
}

/// The first name that shows a configuration to be the program's, wherever it stands, one of the file's before those
/// that were typed; empty: it is not.
std::string mark_of(const Program& program, const ConfigTree& tree, const Names& leaves) {
  for (const bool typed : {false, true})
    for (const std::string& name : leaves)
      if (is_typed_beside_file(tree, name) == typed && said(tree, name) != nullptr && is_mark(program, name))
        return name;
  return "";
}

/// Thresholds in our words say nothing beside another program's loss, unless the loss is named and has a default that
/// they replace.
void refuse_our_thresholds(const ConfigTree& tree, const Program& program, const std::string& mark) {
  for (const char* key : {"delta", "delta_low", "delta_high", "ratio_cap", "anchor", "parameters"}) {
    const std::string name = std::string("objective.") + key;
    const Json* value = said(tree, name);
    if (value == nullptr || *value == Json::array()) continue;
    const bool replaces = std::any_of(program.defaults.begin(), program.defaults.end(),
                                      [&](const ForeignDefault& entry) { return entry.ours == name; });
    const bool loss_named = said(tree, program.loss) != nullptr;
    if (replaces && loss_named) continue;
    const std::string way_out = "; set objective.method to the method that it belongs to";
    if (loss_named)
      fail(ExitCode::kBadConfiguration, place_of(tree, name), ": ", name, " is set beside ", program.loss, "=",
           word_at(tree, program.loss), ", a loss of ", program.name, "'s that knows no such setting", way_out);
    fail(ExitCode::kBadConfiguration, place_of(tree, name), ": ", name, " is set, but the method is not, and ", mark,
         " is a name of ", program.name, "'s, whose default loss is ", word_of(program.defaults[0].value), way_out);
  }
}

/// Another program's default of a critic asks for one of ours.
void require_critic(const ConfigTree& tree, const Program& program, const std::string& mark) {
  const std::string body = word_at(tree, "critic.body");
  if (!body.empty() && body != "none") return;
  Names written;
  add_leaves(tree.value, "", written);
  if (const auto slip = nearest_name(program.advantage, written);
      slip && !program.advantage.empty() && *slip != program.advantage)
    fail(ExitCode::kBadConfiguration, place_of(tree, *slip), ": ", *slip, ": unknown key; did you mean ",
         program.advantage, "?");
  const std::string place = tree.file.empty() ? "configuration" : tree.file,
                    out =
                        "set critic.body=separate to train "
                        "one, or choose a method with objective.method (`keel methods` lists them)";
  if (program.advantage.empty())
    fail(ExitCode::kBadConfiguration, place, ": ", mark, " is a name of ", program.name, ", which has a critic; ", out);
  fail(ExitCode::kBadConfiguration, place, ": ", program.advantage, " is not set, and ", program.name,
       "'s default is gae, PPO with a critic (", mark, " is one of its names); set ", program.advantage, "=",
       program.no_critic, " for group advantages, ", out);
}

/// What is filled in stands where the name stands that made us do so.
void fill_in(ConfigTree& tree, const ForeignDefault& unsaid, const Program& program, const std::string& mark) {
  const Json* overruled = unsaid.overrules.empty() ? nullptr : said(tree, unsaid.overrules);
  if (overruled != nullptr && *overruled != unsaid.value)
    fail(ExitCode::kBadConfiguration, place_of(tree, unsaid.overrules), ": ", unsaid.overrules, " is ",
         overruled->dump(), ", but ", program.name, " lets ", unsaid.name, " win over it, which is ",
         unsaid.value.dump(), " where it is not set; set ", unsaid.name, " to the bound that you want");
  apply_override(tree, unsaid.name + "=" + unsaid.value.dump());
  const auto line = tree.lines.find(mark);
  tree.lines[unsaid.name] = line == tree.lines.end() ? 0 : line->second;
}

/// null in our own section leaves a thing to the method, which is the other program's here.
void forget_nulls(Json& objective) {
  if (!objective.is_object()) return;
  for (auto entry = objective.begin(); entry != objective.end();)
    if (entry->is_null())
      entry = objective.erase(entry);
    else
      ++entry;
}

bool is_unsaid(const ForeignDefault& entry, const ConfigTree& tree, const Program& program) {
  const auto is_said = [&](const std::string& name) { return said(tree, name) != nullptr; };
  const bool gae = program.advantage.empty() || word_at(tree, program.advantage) == "gae";
  if (is_said(entry.name) || (entry.with_gae && !gae)) return false;
  if (!entry.ours.empty() && find_value(tree, entry.ours) != nullptr) return false;
  if (!entry.instead.empty() && std::all_of(entry.instead.begin(), entry.instead.end(), is_said)) return false;
  return entry.losses.empty() || contains(entry.losses, word_at(tree, program.loss));
}

/// The critic of other programs is a network of its own.
void add_critic(ConfigTree& tree, const Program& program, const std::string& mark) {
  const std::string advantage = program.advantage.empty() ? "gae" : word_at(tree, program.advantage);
  const bool is_default = advantage.empty() && std::any_of(program.defaults.begin(), program.defaults.end(),
                                                           [](const ForeignDefault& e) { return e.value == "gae"; });
  if ((advantage == "gae" || is_default) && said(tree, "critic.body") == nullptr)
    fill_in(tree, {"critic.body", "separate"}, program, mark);
}

/// TRL's defaults changed (grpo_config.py of 0.17, 0.19 and 0.22), and a recipe does not say for which version it is.
void note_versions(const Program& program, const ConfigTree& tree, const Names& filled,
                   std::vector<std::string>& notes) {
  if (program.name != "TRL") return;
  if (contains(filled, "loss_type dapo"))
    notes.push_back(
        "loss_type: dapo by default since TRL 0.22, bnpo since 0.17 and grpo before; name it for an older one");
  if (said(tree, "beta") == nullptr && said(tree, "reference.kl_coefficient") == nullptr)
    notes.push_back("beta: 0 by default since TRL 0.19 and 0.04 before; name it for an older one");
}

ConfigTree filled_in(ConfigTree tree, const Program& program, const std::string& mark, const OptionTable& table,
                     Purpose purpose, std::vector<std::string>& notes, Unsaid unsaid) {
  refuse_our_thresholds(tree, program, mark);
  if (tree.value.contains("objective")) forget_nulls(tree.value["objective"]);
  if (unsaid == Unsaid::kAll) {
    add_critic(tree, program, mark);
    for (const auto& [name, value] : other_defaults_of(program.name, tree, table))
      fill_in(tree, {name, value}, program, mark);
  }
  Names filled;
  for (const ForeignDefault& entry : program.defaults) {
    if (!is_unsaid(entry, tree, program)) continue;
    if (entry.value == "gae" || entry.value == "ppo_gae") require_critic(tree, program, mark);
    fill_in(tree, entry, program, mark);
    filled.push_back(entry.name + " " + word_of(entry.value));
  }
  if (!filled.empty() && purpose == Purpose::kTraining &&
      unsaid == Unsaid::kOfTheObjective)  // an import says it line by line
    notes.push_back(mark + " is a name of " + program.name + "'s, whose defaults hold for what is not said of the " +
                    "objective: " + joined(filled) + "; objective.method chooses one of Keel's methods");
  if (unsaid == Unsaid::kAll) note_versions(program, tree, filled, notes);
  add_foreign_remarks(program.name, tree, table, purpose, notes);
  return tree;
}

// Whose configuration it is -----------------------------------------------------------------------------------------

struct Owner {
  const Program* program = nullptr;  // none: it is ours
  std::string mark;                  // the name that shows it
};

/// A configuration cannot be two programs'.
void claim(Owner& owner, const Program& program, const std::string& mark, const ConfigTree& tree) {
  if (owner.program != nullptr && owner.program != &program)
    fail(ExitCode::kBadConfiguration, place_of(tree, mark), ": ", mark, " is a name of ", program.name, "'s and ",
         owner.mark, " (", place_of(tree, owner.mark), ") one of ", owner.program->name,
         "'s, and their default methods differ; set objective.method (`keel methods` lists them)");
  if (owner.program == nullptr) owner = {&program, mark};
}

/// Names that Keel has as well as another program, or that every program on Hugging Face's Trainer has and that are
/// about no training: they say nothing about whose configuration it is.
const Names kOfBoth = {"model", "model.path", "data.prompt_key", "data.shuffle", "report_to"};
const Names kOfSeveral = {"seed",         "temperature",    "gamma",       "lora_alpha",
                          "lora_dropout", "target_modules", "kl_estimator"};  // of several programs

bool is_ours(const OptionTable& table, const std::string& name) {
  return table.find(name) != nullptr && !contains(kOfBoth, name);
}

/// Whether a name is the program's and nobody else's, though it need not be about the objective.
bool is_theirs(const OptionTable& table, const Program& program, const std::string& name) {
  if (contains(kOfBoth, name) || contains(kOfSeveral, name)) return false;
  return std::any_of(table.aliases().begin(), table.aliases().end(), [&](const Alias& alias) {
    return alias.name == name && program.name.starts_with(alias.source);  // TRL's PPO is TRL's
  });
}

/// The names that are said in the file or, where that has none that tells whose it is, all of them.
Names telling_names(const ConfigTree& tree, const OptionTable& table, const Names& all) {
  Names in_file, everywhere;
  for (const std::string& name : all) {
    if (said(tree, name) == nullptr) continue;
    everywhere.push_back(name);
    if (!is_typed_beside_file(tree, name)) in_file.push_back(name);
  }
  const bool tells = std::any_of(in_file.begin(), in_file.end(), [&](const std::string& name) {
    return !contains(kOfBoth, name) && (table.find(name) != nullptr || is_alias(table, name));
  });
  return tells ? in_file : everywhere;
}

/// A name that is typed beside a file of ours could be meant as a mere setting, or with that program's loss.
void refuse_typed_mark(const Owner& owner, const ConfigTree& tree, const OptionTable& table, const Names& names) {
  const Program& program = *owner.program;
  if (!is_typed_beside_file(tree, owner.mark) || said(tree, program.loss) != nullptr) return;
  std::string ours;
  for (const std::string& name : names) {
    if (is_typed_beside_file(tree, name)) continue;
    if (is_theirs(table, program, name)) return;
    if (is_ours(table, name)) ours = name;
  }
  if (ours.empty()) return;
  fail(ExitCode::kBadConfiguration, place_of(tree, owner.mark), ": ", owner.mark, " is a name of ", program.name,
       "'s, whose default loss is ", word_of(program.defaults[0].value), ", and ", ours, " (", place_of(tree, ours),
       ") is one of Keel's, whose default method is dppo_tv; set objective.method (`keel methods` lists them)");
}

/// Whether a name is another program's that Keel does not have, with a value that changes nothing.
bool changes_nothing(const ConfigTree& tree, const OptionTable& table, const std::string& name) {
  return std::any_of(table.refusals().begin(), table.refusals().end(), [&](const Refusal& refusal) {
    return refusal.name == name && !refusal.source.empty() && refusal.allows(*said(tree, name));
  });
}

/// Whose names these are, where none of them is about the objective.
Owner owner_of_other_names(const ConfigTree& tree, const OptionTable& table, const Names& names) {
  Owner owner;
  std::string shared, without_effect;
  for (const std::string& name : names) {
    if (contains(kOfSeveral, name)) shared = name;
    if (changes_nothing(tree, table, name)) without_effect = name;
    for (const Program& program : programs())
      if (program.name != "TRL's PPO" && is_theirs(table, program, name)) claim(owner, program, name, tree);
  }
  if (owner.program == nullptr && !shared.empty())
    fail(ExitCode::kBadConfiguration, place_of(tree, shared), ": ", shared, " is a name that several programs have, ",
         "and nothing else in the file says whose it is, or which method to train; set objective.method (Keel's ",
         "default is dppo_tv; `keel methods` lists them)");
  if (owner.program == nullptr && !without_effect.empty())
    fail(ExitCode::kBadConfiguration, place_of(tree, without_effect), ": ", without_effect, " is another program's ",
         "name, and nothing else in the file says which method to train; set objective.method (Keel's default is ",
         "dppo_tv; `keel methods` lists them)");
  return owner;
}

}  // namespace

const Json* default_of(const std::string& program, const std::string& name) {
  for (const Program& known : programs())
    for (const ForeignDefault& entry : known.defaults)
      if (known.name == program && entry.name == name) return &entry.value;
  return nullptr;
}

std::string recipe_of(const ConfigTree& tree, const OptionTable& table) {
  Names names;
  add_leaves(tree.value, "", names);
  std::erase_if(names, [&](const std::string& name) { return is_typed_beside_file(tree, name); });
  const auto are = [&](const auto& whose) { return std::any_of(names.begin(), names.end(), whose); };
  if (tree.file.empty() || are([&](const std::string& name) { return is_ours(table, name); })) return "";
  for (const char* program : {"TRL", "verl"}) {
    const auto is_of = [&](const std::string& name) {
      if (contains(kOfBoth, name)) return false;
      const auto begins = [&](const std::string& begin) { return name == begin || name.starts_with(begin + "."); };
      const auto aliased = [&](const Alias& a) { return a.source == program && a.name == name; };
      const auto refused = [&](const Refusal& r) { return r.source == program && begins(r.name); };
      return std::any_of(table.aliases().begin(), table.aliases().end(), aliased) ||
             std::any_of(table.refusals().begin(), table.refusals().end(), refused) ||
             (program == std::string("TRL") && begins(kGrpoArguments));
    };
    if (are(is_of)) return program;
  }
  return "";
}

ConfigTree with_foreign_defaults(ConfigTree tree, const OptionTable& table, Purpose purpose,
                                 std::vector<std::string>& notes, Unsaid unsaid) {
  if (!tree.value.is_object()) return tree;
  Names all, leaves;
  add_leaves(tree.value, "", all);
  for (const std::string& name : all)
    if (is_alias(table, name)) leaves.push_back(name);
  Owner owner;
  for (const Program& program : programs()) {
    const std::string mark = mark_of(program, tree, leaves);
    if (mark.empty()) continue;
    if (ours_names_the_method(tree, program.loss))
      add_foreign_remarks(program.name, tree, table, purpose, notes);
    else
      claim(owner, program, mark, tree);
  }
  const Names names = telling_names(tree, table, all);
  if (owner.program != nullptr)
    refuse_typed_mark(owner, tree, table, all);
  else if (said(tree, "objective.method") == nullptr &&
           std::none_of(names.begin(), names.end(), [&](const std::string& name) { return is_ours(table, name); }))
    owner = owner_of_other_names(tree, table, names);
  return owner.program == nullptr
             ? tree
             : filled_in(std::move(tree), *owner.program, owner.mark, table, purpose, notes, unsaid);
}

}  // namespace keel
