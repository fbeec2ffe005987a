#include "keel/compat/recipe.h"

#include <algorithm>
#include <iostream>

#include "keel/compat/import.h"
#include "keel/core/error.h"
#include "keel/core/json_reader.h"
#include "keel/core/options/read_config.h"
#include "keel/core/options/yaml_text.h"
#include "keel/core/strings.h"

namespace keel::compat {
namespace {

constexpr const char* kResolve = "Fix: run verl with --cfg job --resolve, and import its output";

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  fail(ExitCode::kBadConfiguration, parts...);
}

// The file ----------------------------------------------------------------------------------------------------------

ConfigTree read_file(const std::string& file) {
  const std::string text = file == "-" ? read_config_text(std::cin) : read_config_text(file);
  const std::string name = file == "-" ? "standard input" : file;
  const auto has = [&](const char* word) { return text.find(word) != std::string::npos; };
  const bool is_config = name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json");
  const bool calls_trainer = has("-m verl.") || has("trl grpo") || has("trl sft") || has("accelerate launch");
  if (name.ends_with(".py"))
    refuse(name,
           ": Python scripts are not supported. Fix: save what print(training_args.to_json_string()) prints there as "
           "args.json, and run `keel import args.json model_name_or_path=FOLDER dataset_name=FILE`. Add reward_funcs="
           "MODULE.FUNCTION and the arguments of LoraConfig (r=16) in the same way");
  if (name.ends_with(".sh") || name.ends_with(".bash") || text.starts_with("#!") || (!is_config && calls_trainer))
    refuse(name,
           ": shell scripts are not supported. Fix: copy it, keep only the variables and the program call, "
           "replace `python3 -m verl.trainer.main_ppo` or `trl grpo` by `keel import -o keel.yaml`, and run it "
           "with bash");
  if (trimmed(text).empty()) refuse(name, ": is empty, expected a recipe of TRL or verl");
  return parse_config(text, name, Anchors::kResolved);
}

// Python's sections -------------------------------------------------------------------------------------------------

/// Converts strings of booleans and plain numbers in a mapping, like _convert_str_dict of transformers.
void convert_strings(Json& mapping) {
  for (Json& value : mapping) {
    if (value.is_object()) convert_strings(value);
    if (!value.is_string()) continue;
    const std::string text = lower_case(value.get<std::string>());
    const bool is_number = text.find_first_not_of("0123456789.") == std::string::npos && is_number_text(text);
    if (text == "true" || text == "false")
      value = text == "true";
    else if (is_number && text.find('.') == std::string::npos)
      value = std::stoll(text.substr(0, 18));
    else if (is_number)
      value = std::stod(text);
  }
}

/// Moves the keys of a section, and their line numbers, one level up.
void flatten(ConfigTree& tree, const std::string& section) {
  if (!tree.value.contains(section) || !tree.value[section].is_object()) return;
  const Json keys = tree.value[section];
  for (const auto& [key, value] : keys.items()) {
    const std::string name = key == "revision" ? "model_revision" : key, old = section + "." + key;
    if (tree.value.contains(name))
      refuse(location_of(tree, old), ": ", old, " and ", name, " (", location_of(tree, name),
             ") are the same key. Keep one");
    tree.value[name] = value;
    if (const auto line = tree.lines.find(old); line != tree.lines.end()) tree.lines[name] = line->second;
  }
  tree.value.erase(section);
}

/// Merges the arguments of TRL and PEFT classes into one level. The class names stay as keys, because they identify the
/// trainer and the adapter.
void merge_sections(ConfigTree& tree) {
  for (auto& [key, value] : tree.value.items())
    if (key.ends_with("_kwargs") && value.is_string() && trimmed(value.get<std::string>()).starts_with('{')) {
      const std::optional<Json> mapping = try_parse_json(value.get<std::string>());
      if (!mapping) refuse(location_of(tree, key), ": ", key, ": the string is not JSON (got ", value.dump(), ")");
      value = *mapping;
      convert_strings(value);
    }
  for (const char* section : {"ModelConfig", "ScriptArguments", "GRPOScriptArguments", "DatasetMixtureConfig"})
    flatten(tree, section);
  if (tree.value.contains("peft_config")) {
    tree.value["LoraConfig"] = tree.value["peft_config"];
    tree.value.erase("peft_config");
  }
  for (const char* section : {"GRPOConfig", "SFTConfig", "LoraConfig"}) {
    if (!tree.value.contains(section)) continue;
    flatten(tree, section);
    tree.value[section] = true;
  }
  flatten(tree, "model_init_kwargs");
}

// Hydra's files -----------------------------------------------------------------------------------------------------

void erase_targets(Json& node) {
  if (node.is_object()) node.erase("_target_");
  if (node.is_structured())
    for (Json& child : node) erase_targets(child);
}

/// Resolves ${a.b}, ${.b} and ${oc.select:a.b,default}. Other references stay strings.
class References {
 public:
  explicit References(ConfigTree& tree) : tree_(tree) {}
  void resolve_all() { resolve(tree_.value, "", 0); }

 private:
  void resolve(Json& node, const std::string& path, int depth) {
    constexpr int kMaxSteps = 20000;
    if (++steps_ > kMaxSteps) refuse(tree_.file, ": its references make it too large. ", kResolve);
    if (node.is_string()) node = resolve_text(node.get<std::string>(), path, depth);
    if (node.is_object())
      for (auto entry = node.begin(); entry != node.end(); ++entry)
        resolve(entry.value(), path.empty() ? entry.key() : path + "." + entry.key(), depth);
    else if (node.is_array())
      for (Json& element : node) resolve(element, path, depth);
  }

  Json resolve_text(const std::string& text, const std::string& path, int depth) {
    constexpr int kMaxDepth = 32;
    constexpr size_t kMaxText = 4096;
    const size_t begin = text.find("${"), end = text.find('}', begin);
    if (begin == std::string::npos || end == std::string::npos || depth > kMaxDepth || text.size() > kMaxText)
      return text;
    const size_t inner = text.rfind("${", end);  // the innermost one of nested references
    const std::optional<Json> value = look_up(text.substr(inner + 2, end - inner - 2), path, depth);
    if (!value) return text;
    if (inner == 0 && end + 1 == text.size()) return *value;
    return resolve_text(text.substr(0, inner) + as_text(*value) + text.substr(end + 1), path, depth + 1);
  }

  std::optional<Json> look_up(std::string name, const std::string& path, int depth) {
    std::optional<Json> fallback;
    if (constexpr std::string_view kSelect = "oc.select:"; name.starts_with(kSelect)) {
      const size_t comma = name.find(',');
      const std::string text(comma == std::string::npos ? "null" : trimmed(name.substr(comma + 1)));
      fallback = text == "[]" ? Json::array() : plain_scalar(text, location_of(tree_, path));
      name = name.substr(kSelect.size(), comma == std::string::npos ? comma : comma - kSelect.size());
    }
    name = trimmed(name);
    if (name.starts_with('.')) name = path.substr(0, path.find_last_of('.')) + name;
    const Json* value = find_value(tree_, name);
    if (value == nullptr) return fallback;
    Json copy = *value;
    resolve(copy, name, depth + 1);
    return copy;
  }

  ConfigTree& tree_;
  int steps_ = 0;
};

void remove_defaults_list(ConfigTree& tree) {
  const Json* list = find_value(tree, "defaults");
  if (list == nullptr) return;
  for (const Json& entry : list->is_array() ? *list : Json::array({*list}))
    if (entry != "_self_" && entry != "ppo_trainer")
      refuse(location_of(tree, "defaults"), ": defaults includes another file, ", yaml_inline(entry), ". ", kResolve);
  erase_value(tree, "defaults");
}

// Arguments ---------------------------------------------------------------------------------------------------------

/// Handles ~key, or ~key=value for a key with this value.
void remove_key(ConfigTree& tree, const std::string& word) {
  const size_t equals = word.find('=');
  const std::string path = word.substr(1, equals - 1);
  const Json* const found = find_value(tree, path);
  if (found == nullptr)
    refuse(kCommandLine, ": ", word, ": the recipe has no ", path, ". Remove this argument, or set a value");
  TreeBuilder builder(kCommandLine + std::string(": ") + word);
  read_hydra_value(equals == word.npos ? "null" : std::string_view(word).substr(equals + 1), builder);
  if (const Json value = std::move(builder).finish().value; !value.is_null() && value != *found)
    refuse(kCommandLine, ": ", word, ": ", path, " has another value (got ", yaml_inline(*found), "). Write ~", path);
  erase_value(tree, path);
}

Json merge(Json mapping, const Json& other) {
  for (const auto& [key, value] : other.items()) {
    Json& target = mapping[key];
    target = target.is_object() && value.is_object() ? merge(target, value) : value;
  }
  return mapping;
}

/// Handles key=value of Hydra. Merges mappings.
void set_key(ConfigTree& tree, std::string_view word) {
  while (word.starts_with('+')) word.remove_prefix(1);
  const size_t equals = word.find('=');
  if (equals == word.npos)
    refuse(kCommandLine, ": ", word, ": expected key=value (verl) or --key value (TRL); recipe file first");
  const std::string path(trimmed(word.substr(0, equals)));
  if (path.find_first_of("/@") != path.npos) refuse(kCommandLine, ": ", word, ": selects a Hydra file. ", kResolve);
  const Json* found = find_value(tree, path);
  const Json before = found == nullptr ? Json() : *found;
  apply_override(tree, word, read_hydra_value);
  auto* merged = const_cast<Json*>(find_value(tree, path));
  if (before.is_object() && merged != nullptr && merged->is_object()) *merged = merge(before, *merged);
}

bool is_setting(const std::string& word) {
  const size_t equals = word.find('=');
  return equals != word.npos &&
         word.substr(0, equals).find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") == std::string::npos &&
         word.substr(0, equals).find('.') != std::string::npos;
}

Json argument_value(std::string text) {
  while (text.size() > 1 && text.ends_with(',')) text.pop_back();  // "q_proj", "v_proj"
  if (text.starts_with('['))
    if (const std::optional<Json> list = try_parse_json(text)) return *list;
  return plain_scalar(text, kCommandLine);
}

/// Handles --key value ..., --key=value or --flag of TRL. Returns the number of arguments consumed.
size_t set_argument(ConfigTree& tree, const std::vector<std::string>& words, size_t index) {
  const std::string& word = words[index];
  const size_t equals = word.find('=');
  std::string key = word.substr(2, equals == word.npos ? equals : equals - 2);
  std::replace(key.begin(), key.end(), '-', '_');
  std::vector<Json> values;
  if (equals != word.npos) values.push_back(argument_value(word.substr(equals + 1)));
  size_t end = index + 1;
  for (; equals == word.npos && end < words.size(); ++end) {
    if (words[end].starts_with("--") || is_setting(words[end]) || words[end].starts_with('~')) break;
    values.push_back(argument_value(words[end]));
  }
  const bool is_off = values.empty() && key.starts_with("no_") && key != "no_cuda";
  if (is_off) key.erase(0, 3);
  tree.value[key] = values.empty() ? Json(!is_off) : values.size() == 1 ? values[0] : Json(values);
  tree.lines[key] = 0;
  return end - index;
}

bool is_hydra_option(const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  return name.starts_with("--config-") || name == "--cfg" || name == "--multirun" || name == "-m" ||
         (name.size() == 3 && name.starts_with("-c"));
}

}  // namespace

ConfigTree read_recipe(const std::string& file, const std::vector<std::string>& words) {
  std::string path = file;
  for (size_t i = 0; i < words.size(); ++i) {
    if (is_hydra_option(words[i])) refuse(kCommandLine, ": ", words[i], " is a Hydra option. ", kResolve);
    const bool is_next = words[i] == "--config";
    if (!is_next && !words[i].starts_with("--config=")) continue;
    if (!path.empty()) refuse(kCommandLine, ": --config names a second recipe, next to ", path, ". Keep one");
    if (is_next && i + 1 == words.size()) refuse(kCommandLine, ": --config has no file");
    path = is_next ? words[i + 1] : words[i].substr(9);
  }
  ConfigTree tree;
  if (!path.empty()) tree = read_file(path);
  merge_sections(tree);
  for (size_t i = 0; i < words.size();) {
    const std::string& word = words[i];
    if (word.starts_with("--config")) {
      i += word == "--config" ? 2 : 1;
    } else if (word.starts_with("--")) {
      i += set_argument(tree, words, i);
    } else {
      word.starts_with('~') ? remove_key(tree, word) : set_key(tree, word);
      ++i;
    }
  }
  merge_sections(tree);
  remove_defaults_list(tree);
  erase_targets(tree.value);
  References(tree).resolve_all();
  return tree;
}

}  // namespace keel::compat
