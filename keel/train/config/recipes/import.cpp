#include "keel/train/config/recipes/import.h"

#include <algorithm>
#include <map>

#include "keel/core/error.h"
#include "keel/core/options/read_config.h"
#include "keel/core/options/yaml_text.h"
#include "keel/core/strings.h"
#include "keel/train/config/config.h"
#include "keel/train/config/foreign_adapter.h"
#include "keel/train/config/foreign_names.h"
#include "keel/train/config/foreign_objective.h"
#include "keel/train/config/foreign_tools.h"
#include "keel/train/config/recipes/sft_recipe.h"

namespace keel {
namespace {

bool is_name(const OptionTable& table, const std::string& path) {
  return table.find(path) != nullptr || std::any_of(table.aliases().begin(), table.aliases().end(),
                                                    [&](const Alias& alias) { return alias.name == path; });
}

/// The refusal of a name or of the nearest section above it; nullptr where there is none.
const Refusal* refusal_of(const OptionTable& table, std::string path) {
  for (size_t dot = path.size(); dot != std::string::npos; dot = path.find_last_of('.')) {
    path.resize(dot);
    for (const Refusal& refusal : table.refusals())
      if (refusal.name == path) return &refusal;
  }
  return nullptr;
}

// What is left out --------------------------------------------------------------------------------------------------

using Reasons = std::vector<NamesWithReason>;

/// Names of one reason stand together, in the order of the recipe.
void add_to(Reasons& reasons, const std::string& name, std::string reason) {
  for (const char* order : {"; remove it", ", and remove it"})  // import does
    if (reason.ends_with(order)) reason.resize(reason.size() - std::string(order).size());
  const auto known = std::ranges::find(reasons, reason, &NamesWithReason::reason);
  if (known == reasons.end())
    reasons.push_back({{name}, std::move(reason)});
  else
    known->names.push_back(name);
}

/// Of the tools that are to show the run, those that it is written for while it goes on are kept.
void leave_out_tools(ConfigTree& recipe, Reasons& dropped) {
  for (const std::string& name : kToolNames) {
    Json* value = const_cast<Json*>(find_value(recipe, name));
    if (value == nullptr) continue;
    const Names tools = tools_of(*value);
    for (const std::string& tool : tools)
      if (tool != kTensorBoard) add_to(dropped, name, tool + ": " + way_to_tool(tool));
    if (contains(tools, kTensorBoard) || contains(tools, kAllTools))
      *value = kTensorBoard;
    else
      erase_value(recipe, name);
  }
}

/// Without a critic verl never reads what is said of it, so that nothing of it need be refused.
bool is_of_unused_critic(const ConfigTree& recipe, const std::string& path) {
  const std::string advantage = word_at(recipe, kAdvEstimator);
  const bool used = advantage.empty() || advantage == "gae" || word_at(recipe, "critic.enable") == "true";
  return !used && path.starts_with("critic.");
}

/// What a critic has of the policy's here, and a recipe may say again of it.
bool is_as_of_the_policy(const ConfigTree& recipe, const std::string& path) {
  static const Names kShared = {"optim.weight_decay", "optim.betas", "optim.num_cycles",
                                "ppo_epochs",         "grad_clip",   "ppo_mini_batch_size"};
  const std::string critic = "critic.", name = path.substr(std::min(critic.size(), path.size()));
  if (!path.starts_with(critic) || !contains(kShared, name)) return false;
  const Json* of_policy = find_value(recipe, "actor_rollout_ref.actor." + name);
  return of_policy != nullptr && *of_policy == *find_value(recipe, path);
}

/// The recipe without what says nothing about the training.
ConfigTree without_left_out(ConfigTree recipe, const OptionTable& table, Imported& result) {
  leave_out_tools(recipe, result.dropped);
  Names paths;
  add_leaves(recipe.value, "", paths);
  const ConfigTree whole = recipe;
  for (const std::string& path : paths) {
    const Refusal* refusal = is_name(table, path) ? nullptr : refusal_of(table, path);
    const bool of_unused_critic = is_of_unused_critic(whole, path);
    if (!of_unused_critic && is_as_of_the_policy(whole, path)) {
      erase_value(recipe, path);
      continue;
    }
    if (refusal == nullptr || (refusal->fate == Fate::kRefused && !of_unused_critic)) continue;
    const Json value = *find_value(recipe, path);
    const bool changes_nothing = refusal->allows(value) || refusal->allows(*find_value(whole, refusal->name));
    const bool accepted = changes_nothing && refusal->name == path;  // it stays, for other names that go by it
    if (!accepted) erase_value(recipe, path);
    if (value.is_null() || (changes_nothing && refusal->fate != Fate::kByNature)) continue;
    if (refusal->fate == Fate::kRefused)
      add_to(result.dropped, path, "verl reads it only where there is a critic");
    else
      add_to(refusal->fate == Fate::kDropped ? result.dropped : result.by_nature, path, refusal->reason);
  }
  return recipe;
}

// Whose recipe it is ------------------------------------------------------------------------------------------------

std::string program_of(const ConfigTree& recipe, const OptionTable& table) {
  std::map<std::string, size_t> votes;
  Names paths;
  bool ours = false;
  add_leaves(recipe.value, "", paths);
  for (const std::string& path : paths) {
    ours = ours || table.find(path) != nullptr;
    for (const Alias& alias : table.aliases())
      if (alias.name == path) ++votes[alias.source];
    if (const Refusal* refusal = refusal_of(table, path); refusal != nullptr && !refusal->source.empty())
      ++votes[refusal->source];
  }
  const auto most =
      std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != votes.end()) return most->first;
  const std::string place = recipe.file.empty() ? kCommandLine : recipe.file;
  constexpr size_t kShown = 8;
  const size_t seen = paths.size();
  paths.resize(std::min(seen, kShown));
  if (ours)
    fail(ExitCode::kBadConfiguration, place, ": this is a configuration of Keel's already (", joined(paths),
         seen > kShown ? ", ..." : "", "); start it with keel train");
  fail(ExitCode::kBadConfiguration, place, ": neither a recipe of TRL's nor one of verl's: it has ", joined(paths),
       seen > kShown ? ", ..." : "",
       ", and none of the names of GRPOConfig (num_generations, learning_rate, ...) or of ",
       "verl (actor_rollout_ref, algorithm, ...)");
}

// The text ----------------------------------------------------------------------------------------------------------

/// Whether a number is computed, and only happens to stay the same: another one would not.
bool computes(const Alias& alias, const Json& number, const ConfigTree& filled, const OptionTable& table) {
  if (!number.is_number() || !alias.converter) return false;
  const Json other = number.is_number_float() ? Json(number.get<double>() * 2) : Json(number.get<int64_t>() * 2);
  try {
    return alias.converter(other, filled, table) != other;
  } catch (const Error&) {
    return true;
  }
}

/// Where a line comes from, and how its unit changed.
std::string origin(const Option& option, const std::string& name, const ConfigTree& recipe, const ConfigTree& filled,
                   const OptionTable& table, const std::string& program) {
  const bool is_default = find_value(recipe, name) == nullptr;
  const Json theirs = *find_value(filled, name);
  if (name == option.path) return is_default ? "as in " + program : "as it was given";
  if (const std::string whose = default_of_trl_adapter(name, option.path); !whose.empty()) return whose;
  const auto alias = std::find_if(table.aliases().begin(), table.aliases().end(),
                                  [&](const Alias& a) { return a.name == name && a.target == option.path; });
  std::string text = (is_default ? program + "'s default of " : "") + name;
  const Json ours = table.get(option.path);
  if ((theirs == ours && !computes(*alias, theirs, filled, table)) || Json::array({theirs}) == ours) return text;
  text += " " + yaml_inline(theirs);
  return alias->conversion.empty() ? text : text + ": " + alias->conversion;
}

/// What a part of a comment may hold: one line.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string yaml_of(const ConfigTree& recipe, const ConfigTree& filled, const OptionTable& table,
                    const std::string& program) {
  constexpr size_t kColumn = 40;
  std::string text;
  for (const Section& section : table.sections()) {
    std::string lines;
    for (const Option& option : table.options()) {
      const auto given = table.given().find(option.path);
      if (given == table.given().end() || !option.path.starts_with(section.path + ".")) continue;
      std::string line =
          "  " + option.path.substr(section.path.size() + 1) + ": " + yaml_inline(table.get(option.path));
      line.resize(std::max(line.size() + 2, kColumn), ' ');
      lines += line + "# " + one_line(origin(option, given->second, recipe, filled, table, program)) + "\n";
    }
    if (!lines.empty()) text += section.path + ":\n" + lines;
  }
  return text;
}

bool is_named_in(const std::string& message, const std::string& name) {
  const auto is_part = [](char c) { return c == '_' || c == '.' || is_digit(c) || is_letter(c); };
  for (size_t at = message.find(name); at != std::string::npos; at = message.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !is_part(message[at - 1])) && (end == message.size() || !is_part(message[end]))) return true;
  }
  return false;
}

/// What the recipe calls the settings that an error is about, and whose defaults they are that it does not have.
std::string names_behind(const std::string& message, const ConfigTree& recipe, const ConfigTree& filled,
                         const OptionTable& table, const std::string& program) {
  std::string text;
  Names told;
  for (const Alias& alias : table.aliases()) {
    const Json *said = find_value(recipe, alias.name), *value = said ? said : find_value(filled, alias.name);
    if (value == nullptr || contains(told, alias.name)) continue;
    const bool sets = sets_something(alias, *value, filled, table) && is_named_in(message, alias.target);
    const bool is_named = is_named_in(message, alias.name);
    if (said ? is_named || !sets : !is_named && !sets) continue;
    told.push_back(alias.name);
    const std::string of_ours =
        sets ? " (" + alias.target + (alias.conversion.empty() ? "" : ": " + alias.conversion) + ")" : "";
    text += said ? "\nThe recipe has " + alias.name + " " + yaml_inline(*value) + of_ours
                 : "\n" + alias.name + " is not in the recipe, and " + program + "'s default is " +
                       yaml_inline(*value) + of_ours + "; write " + alias.name + "=... behind it";
  }
  return text;
}

/// The text must say what was read: it is all that the run will have.
void check(const Imported& result, Config config) {
  std::vector<std::string> notes;
  const Json read = to_json(load_config(parse_config(result.yaml, "the imported configuration"), notes));
  const Json meant = to_json(std::move(config));
  if (read != meant)
    fail(ExitCode::kInternal,
         "the imported configuration says something else than the recipe: ", Json::diff(meant, read).dump());
}

}  // namespace

Imported import_recipe(const ConfigTree& given) {
  ConfigTree recipe = given;
  Imported result;
  Config config;
  OptionTable table;
  result.supervised = take_whether_supervised(recipe);
  result.supervised ? describe_for_sft(config, table) : config.describe(table);
  result.program = program_of(recipe, table);
  const ConfigTree kept = without_left_out(recipe, table, result);
  const ConfigTree filled = result.supervised
                                ? with_sft_defaults(kept, table, result.remarks)
                                : with_foreign_defaults(kept, table, Purpose::kTraining, result.remarks, Unsaid::kAll);
  std::vector<std::string> aliases;  // which the comments say
  const std::vector<std::string> unread = [&] {
    try {
      return load_filled(config, table, filled, aliases);
    } catch (const Error& error) {
      fail(error.code(), error.what(), names_behind(error.what(), kept, filled, table, result.program));
    }
  }();
  result.remarks.insert(result.remarks.end(), unread.begin(), unread.end());
  result.yaml = yaml_of(kept, filled, table, result.program);
  check(result, config);
  return result;
}

}  // namespace keel
