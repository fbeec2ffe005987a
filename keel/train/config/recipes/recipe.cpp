#include "keel/train/config/recipes/recipe.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/options/read_config.h"
#include "keel/core/options/yaml_text.h"
#include "keel/core/strings.h"
#include "keel/train/config/foreign_mapping.h"
#include "keel/train/config/foreign_names.h"
#include "keel/train/config/recipes/hydra_value.h"
#include "keel/train/config/recipes/shell_script.h"

namespace keel {
namespace {

// Settings ----------------------------------------------------------------------------------------------------------

/// A mapping with another put into it; what is no mapping in both is the other's.
Json merged(Json mapping, const Json& other) {
  for (const auto& [key, value] : other.items()) {
    Json& mine = mapping[key];
    mine = mine.is_object() && value.is_object() ? merged(mine, value) : value;
  }
  return mapping;
}

/// ~key=VALUE takes a key away that has this value, and Hydra refuses any other; null is any.
void require_value(const Json& there, const std::string& path, std::string_view text, WrittenAs written) {
  TreeBuilder builder(std::string(kCommandLine) + ": ~" + path + "=" + std::string(text));
  read_setting_value(text, written, builder);
  const Json value = std::move(builder).finish().value;
  if (!value.is_null() && value != there)
    fail(ExitCode::kBadConfiguration, kCommandLine, ": ~", path, "=", text, ": ", path, " is ", yaml_inline(there),
         ", which this does not take away; write ~", path, " alone");
}

void apply_setting(ConfigTree& tree, std::string_view setting, WrittenAs written) {
  if (setting.starts_with('~')) {
    const size_t equals = setting.find('=');
    const std::string path(setting.substr(1, equals - 1));
    const Json* const there = find_value(tree, path);
    if (there == nullptr)
      fail(ExitCode::kBadConfiguration, kCommandLine, ": ", setting, ": there is no ", path,
           " to leave out in this recipe; remove this, or, if it takes away a default, give the value that is to hold");
    if (equals != setting.npos) require_value(*there, path, setting.substr(equals + 1), written);
    return erase_value(tree, path);
  }
  while (setting.starts_with('+')) setting.remove_prefix(1);
  if (const std::string_view key = setting.substr(0, setting.find('=')); key.find_first_of("/@") != key.npos)
    fail(ExitCode::kBadConfiguration, kCommandLine, ": ", setting,
         ": this chooses a file of a group of Hydra's, which ",
         "is not read; give the settings that stand in it, as key=value");
  const std::string path(trimmed(setting.substr(0, setting.find('='))));
  const Json* const found = find_value(tree, path);
  const Json before = found == nullptr ? Json() : *found;
  const std::map<std::string, int> lines = tree.lines;
  apply_override(tree, setting, [written](std::string_view text, TreeBuilder& builder) {
    read_setting_value(text, written, builder);
  });
  // Hydra puts a mapping into the one that is there; an argument of TRL's takes its place.
  auto* const now = const_cast<Json*>(find_value(tree, path));
  if (contains(kTrlMappings, path) || !before.is_object() || now == nullptr || !now->is_object()) return;
  *now = merged(before, *now);
  tree.lines.insert(lines.begin(), lines.end());  // of what stays as it was
}

// The sections of Python's arguments --------------------------------------------------------------------------------

void move_value(ConfigTree& tree, const std::string& from, const std::string& to) {
  if (find_value(tree, to) != nullptr)
    fail(ExitCode::kBadConfiguration, place_of(tree, from), ": ", from, " says what ", to, " (", place_of(tree, to),
         ") says too; keep one of them");
  const Json value = *find_value(tree, from);
  const auto line = tree.lines.find(from);
  tree.lines[to] = line == tree.lines.end() ? 0 : line->second;
  tree.value[to] = value;
  erase_value(tree, from);
}

Names keys_of(const Json& mapping) {
  Names keys;
  for (const auto& [key, value] : mapping.items()) keys.push_back(key);
  return keys;
}

/// PEFT's own names are known beside the others; that there is a LoraConfig brings its defaults.
void take_adapter(ConfigTree& tree) {
  const std::string section = kPeftArguments;
  if (tree.value.contains("peft_config")) move_value(tree, "peft_config", section);
  if (!tree.value.contains(section) || !tree.value[section].is_object()) return;
  for (const std::string& key : keys_of(tree.value[section])) move_value(tree, section + "." + key, key);
  tree.value[section] = true;
}

/// Where TRL takes a mapping, it takes one that is written as JSON in a text, too.
void take_mappings_in_texts(ConfigTree& tree) {
  for (const std::string& section :
       {std::string(), std::string(kGrpoArguments) + ".", std::string(kSftArguments) + "."})
    for (const std::string& name : kTrlMappings) {
      Json* value = const_cast<Json*>(find_value(tree, section + name));
      if (value == nullptr) continue;
      try {
        *value = mapping_in_text(*value);
      } catch (const Error& error) {
        fail(error.code(), place_of(tree, section + name), ": ", section + name, " (TRL): ", error.what());
      }
    }
}

/// Those of a trainer's own arguments stay, empty: they tell which trainer it is.
ConfigTree without_sections(ConfigTree tree) {
  take_mappings_in_texts(tree);
  for (const char* section : {kGrpoArguments, kSftArguments, "ModelConfig", "ScriptArguments", "GRPOScriptArguments",
                              "DatasetMixtureConfig", "model_init_kwargs"}) {
    if (!tree.value.contains(section) || !tree.value[section].is_object()) continue;
    for (const std::string& key : keys_of(tree.value[section]))
      move_value(tree, std::string(section) + "." + key, key == "revision" ? "model_revision" : key);
    erase_value(tree, section);
    if (contains({kGrpoArguments, kSftArguments}, section)) tree.value[section] = Json::object();
  }
  take_adapter(tree);
  return tree;
}

// Hydra -------------------------------------------------------------------------------------------------------------

/// The list of files that a configuration is put together from: verl's own defaults are what holds anyway.
void take_defaults(ConfigTree& tree) {
  const Json* list = find_value(tree, "defaults");
  if (list == nullptr) return;
  for (const Json& entry : list->is_array() ? *list : Json::array({*list}))
    if (entry != "_self_" && entry != "ppo_trainer" && entry != "ppo_megatron_trainer")
      fail(ExitCode::kBadConfiguration, place_of(tree, "defaults"), ": defaults: ", yaml_inline(entry),
           " is another file, which is not read; write what it says into this one, and leave out the entry (",
           "ppo_trainer, verl's own defaults, may stand there)");
  erase_value(tree, "defaults");
}

/// Names of Python classes that Hydra makes of sections.
void erase_targets(Json& node) {
  if (!node.is_structured()) return;
  if (node.is_object()) node.erase("_target_");
  for (Json& child : node) erase_targets(child);
}

/// Resolves ${a.b} and ${oc.select:a.b,default}, whose default may be another, everywhere.
class References {
 public:
  explicit References(ConfigTree& tree) : tree_(tree) {}

  void resolve() { resolve(tree_.value, "", 0); }

 private:
  static constexpr size_t kMaxNested = 32;
  static constexpr size_t kMaxBytes = size_t{4} << 20;

  void resolve(Json& node, const std::string& path, size_t depth) {
    if (node.is_string()) {
      node = resolved(node.get<std::string>(), path, depth);
    } else if (node.is_object()) {
      for (auto entry = node.begin(); entry != node.end(); ++entry)
        resolve(entry.value(), path.empty() ? entry.key() : path + "." + entry.key(), depth);
    } else if (node.is_array()) {
      for (size_t i = 0; i < node.size(); ++i) resolve(node[i], path + "." + std::to_string(i), depth);
    }
  }

  [[noreturn]] void refuse(const std::string& path, const std::string& reference, const std::string& why) const {
    constexpr size_t kShown = 200;
    fail(ExitCode::kBadConfiguration, place_of(tree_, path), ": ", shorten(path, kShown), ": ",
         shorten(reference, kShown), " ", why, "; write the value out");
  }

  /// A text that is one reference gets the type of what it names, one that has some in it stays a text.
  Json resolved(const std::string& text, const std::string& path, size_t depth) {
    std::string whole;
    for (size_t at = 0; at < text.size();) {
      const size_t begin = text.find("${", at);
      if (begin == std::string::npos) return whole.empty() && at == 0 ? Json(text) : Json(whole + text.substr(at));
      const size_t end = end_of_reference(text, begin);
      const std::string reference = text.substr(begin, end == std::string::npos ? end : end + 1 - begin);
      if (end == std::string::npos) refuse(path, reference, "is not closed");
      const Json value = named(reference, path, depth);
      if (begin == 0 && end + 1 == text.size()) return value;
      whole += text.substr(at, begin - at) + word_of(value);
      spend(whole.size(), path, reference);
      at = end + 1;
    }
    return whole;
  }

  /// What references of references grow to, in bytes and in steps.
  void spend(size_t bytes, const std::string& path, const std::string& reference) {
    constexpr size_t kOfAStep = 64;
    spent_ += bytes + kOfAStep;
    if (spent_ > kMaxBytes) refuse(path, reference, "and the others make this too large");
  }

  Json named(const std::string& reference, const std::string& path, size_t depth) {
    if (depth > kMaxNested) refuse(path, reference, "leads back to itself");
    std::string name(trimmed(reference.substr(2, reference.size() - 3)));
    std::optional<std::string> otherwise;
    if (name.starts_with("oc.select:")) {
      const size_t comma = std::min(name.find(','), name.size());
      otherwise = comma == name.size() ? "null" : std::string(trimmed(name.substr(comma + 1)));
      name = trimmed(name.substr(10, comma - 10));
    }
    if (name.find("${") != std::string::npos) refuse(path, reference, "has another reference in its name");
    if (name.find(':') != std::string::npos) refuse(path, reference, "is a function of Hydra's, which is not called");
    if (name.starts_with('.')) {  // beside this key
      if (name.starts_with("..")) refuse(path, reference, "counts sections upwards, which is not read");
      const size_t dot = path.find_last_of('.');
      name = (dot == std::string::npos ? "" : path.substr(0, dot + 1)) + name.substr(1);
    }
    const Json* value = find_value(tree_, name);
    if (value == nullptr && otherwise && otherwise->find("${") != std::string::npos)
      return resolved(*otherwise, path, depth + 1);
    if (value == nullptr && otherwise) return plain_scalar(*otherwise, place_of(tree_, path));
    if (value == nullptr) refuse(path, reference, "names nothing in this recipe");
    Json copy = *value;  // with references of its own
    spend(copy.is_primitive() ? 0 : copy.dump().size(), path, reference);
    resolve(copy, name, depth + 1);
    return copy;
  }

  ConfigTree& tree_;
  size_t spent_ = 0;
};

// The file ----------------------------------------------------------------------------------------------------------

ConfigTree read_file(const std::string& file) {
  const std::string text = file == "-" ? read_config_text(std::cin) : read_config_text(file);
  const std::string_view begin = trimmed(text);
  const bool names_trainer = text.find("-m verl.") != std::string::npos || text.find("trl grpo") != std::string::npos ||
                             text.find("trl sft") != std::string::npos;
  const bool is_script = file.ends_with(".sh") || file.ends_with(".bash") || file.ends_with(".txt") ||
                         begin.starts_with("#!") || (file == "-" && names_trainer);
  const std::string name = file == "-" ? "standard input" : file;
  if (begin.empty()) fail(ExitCode::kBadConfiguration, name, ": is empty; give a recipe of TRL's or verl's");
  if (name.ends_with(".py"))
    fail(ExitCode::kBadConfiguration, name,
         ": a Python script is not read; write what stands in its GRPOConfig(...), or SFTConfig(...), and ",
         "LoraConfig(...) as YAML or JSON: {\"GRPOConfig\": {\"num_generations\": 8}, \"LoraConfig\": {\"r\": 16}, ",
         "\"model_name_or_path\": ..., \"dataset_name\": ..., \"reward_funcs\": ...}");
  if (!is_script) return parse_config(text, name, Anchors::kResolved);
  check_config_text(text, name);
  ConfigTree tree;
  tree.file = name;
  for (const ScriptSetting& setting : settings_of_script(text, name)) {
    try {
      apply_setting(tree, setting.text, setting.written);
    } catch (const Error& error) {
      const std::string what = error.what(), typed = kCommandLine;
      if (!what.starts_with(typed)) throw;
      throw Error(error.code(), name + ":" + std::to_string(setting.line) + what.substr(typed.size()));
    }
    for (auto& [path, line] : tree.lines)
      if (line == 0) line = setting.line;  // it stands in the script, and was not typed beside it
  }
  return tree;
}

}  // namespace

ConfigTree read_recipe(const std::string& file, const std::vector<std::string>& settings) {
  ConfigTree tree;
  if (!file.empty()) tree = without_sections(read_file(file));
  for (const std::string& setting : settings) apply_setting(tree, setting, WrittenAs::kTyped);
  tree = without_sections(std::move(tree));  // such as are typed
  take_defaults(tree);
  erase_targets(tree.value);
  References(tree).resolve();
  return tree;
}

}  // namespace keel
