#include <algorithm>
#include <set>

#include "keel/core/error.h"
#include "keel/core/nearest.h"
#include "keel/core/options/options.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

constexpr size_t kMaxErrors = 20;

KeyHint& key_hint() {
  static KeyHint hint;
  return hint;
}

std::string hint_about(const std::string& path) { return key_hint() ? key_hint()(path) : ""; }

std::string parent_of(const std::string& path) {
  const size_t dot = path.find_last_of('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string leaf_of(const std::string& path) { return path.substr(path.find_last_of('.') + 1); }

/// Returns the first clause of a help text, to distinguish settings of the same name.
std::string first_clause(const std::string& help) {
  size_t end = help.find_first_of(".;:");
  while (end + 1 < help.size() && help[end + 1] != ' ') end = help.find_first_of(".;:", end + 1);  // "rollout.seed"
  return help.substr(0, end);
}

/// Assigns the values of a tree to the options and collects the errors.
class OptionLoader {
 public:
  OptionLoader(const ConfigTree& tree, const OptionTable& table) : tree_(tree), table_(table) {
    for (const Section& section : table.sections()) sections_.insert(section.path);
    for (const Option& option : table.options()) option_paths_.push_back(option.path);
  }

  void run() {
    walk_children("", tree_.value);
    if (errors_.empty()) return;
    std::string message = joined(errors_, "\n");
    if (omitted_errors_ > 0) message += "\n... and " + std::to_string(omitted_errors_) + " more";
    throw Error(ExitCode::kBadConfiguration, message);
  }

 private:
  void walk_children(const std::string& path, const Json& mapping) {
    for (const auto& [key, value] : mapping.items()) walk(path.empty() ? key : path + "." + key, value);
  }

  void walk(const std::string& path, const Json& value) {
    const bool is_section = sections_.contains(path);
    if (is_section && value.is_object()) return walk_children(path, value);
    if (const Option* option = table_.find(path)) return assign(*option, path, value);
    for (const Refusal& refusal : table_.refusals())
      if (refusal.name == path) return add_error(path, refusal.fix);
    if (!is_section) return add_unknown_key(path, value);
    const Option* shorthand = value.is_string() ? table_.find(path + ".path") : nullptr;
    if (shorthand != nullptr) return assign(*shorthand, path, value);
    const bool is_empty = value.is_null();  // all its keys are commented out
    if (!is_empty)
      add_error(path, "got " + value_and_type(value) + ", expected a section with keys " + joined(leaves_in(path)));
  }

  void assign(const Option& option, const std::string& name, const Json& value) {
    const auto problem = assign_value(option.target, option.limits, value);
    if (!problem) return;
    const std::string element = problem->element ? "." + std::to_string(*problem->element) : "";
    const std::string hint = value.is_null() ? "; leave the key out to get the default" : "";
    add_error(name + element, problem->text + hint);
  }

  /// Returns "run.yaml:3: rollout.temperature" or "command line: rollout.temperature=hot".
  std::string subject(const std::string& path) const {
    const std::string location = location_of(tree_, path);
    const Json* value = find_value(tree_, path);
    if (!on_command_line(tree_, path) || !value) return location + ": " + path;
    return location + ": " + path + "=" + value_text(*value, /*quoted=*/false);
  }

  void add_error(const std::string& path, const std::string& text) {
    if (errors_.size() < kMaxErrors)
      errors_.push_back(subject(path) + ": " + text);
    else
      ++omitted_errors_;
  }

  void add_unknown_key(const std::string& path, const Json& value) {
    if (errors_.size() >= kMaxErrors) return add_error(path, "");  // counts it; suggestions would take time
    const auto child = value.is_object() ? value.begin() : value.end();
    if (child != value.end() && !hint_about(path + "." + child.key()).empty())
      return add_unknown_key(path + "." + child.key(), child.value());
    add_error(path, (value.is_object() ? "unknown section; " : "unknown key; ") + suggestion(path));
  }

  /// Corrects a misspelling, or shows the settings with the same name in other sections, or the known names.
  std::string suggestion(const std::string& path) const {
    const std::string section = parent_of(path), leaf = leaf_of(path), same_name = settings_named(leaf);
    if (const std::string hint = hint_about(path); !hint.empty()) return hint;
    if (section.empty() && !same_name.empty()) return same_name;
    if (const std::string correction = suggest_correction(path, paths_in(section)); !correction.empty())
      return correction;
    if (!same_name.empty()) return same_name;
    if (const std::string correction = suggest_correction(path, option_paths_); !correction.empty()) return correction;
    if (const std::string hint = hint_about(leaf); !hint.empty()) return hint;
    if (sections_.contains(section)) return "keys of " + section + " are " + joined(leaves_in(section));
    return "sections are " + joined(leaves_in(""));
  }

  /// Returns "did you mean rollout.temperature?", or an empty string if the name is not a misspelling.
  static std::string suggest_correction(const std::string& path, const std::vector<std::string>& names) {
    constexpr size_t kMinTopLevelName = 3;  // shorter names outside sections are close to too many names
    if (parent_of(path).empty() && path.size() < kMinTopLevelName) return "";
    const auto nearest = nearest_name(path, names);
    return nearest && is_misspelling_of(path, *nearest) ? "did you mean " + *nearest + "?" : "";
  }

  /// Returns "this name exists as rollout.temperature (Softmax temperature of sampling)", or an empty string. Settings
  /// of the data come first: `data_epochs` before other settings called `epochs`.
  std::string settings_named(const std::string& leaf) const {
    std::vector<std::string> texts;
    for (const std::string& name : {"data_" + leaf, leaf})
      for (const Option& option : table_.options())
        if (leaf_of(option.path) == name) texts.push_back(option.path + " (" + first_clause(option.help) + ")");
    for (const Section& section : table_.sections())
      if (leaf_of(section.path) == leaf) texts.push_back(section.path + " (" + first_clause(section.help) + ")");
    return texts.empty() ? "" : "this name exists as " + joined(texts, "; ");
  }

  /// Returns the options, sections and removed names directly below `section`.
  std::vector<std::string> paths_in(const std::string& section) const {
    std::vector<std::string> paths;
    for (const std::string& path : option_paths_)
      if (parent_of(path) == section) paths.push_back(path);
    for (const Section& inner : table_.sections())
      if (parent_of(inner.path) == section) paths.push_back(inner.path);
    for (const Refusal& refusal : table_.refusals())
      if (parent_of(refusal.name) == section) paths.push_back(refusal.name);
    return paths;
  }

  std::vector<std::string> leaves_in(const std::string& section) const {
    std::vector<std::string> leaves = paths_in(section);
    std::erase_if(leaves, [&](const std::string& path) {
      return std::ranges::any_of(table_.refusals(), [&](const Refusal& refusal) { return refusal.name == path; });
    });
    for (std::string& path : leaves) path = leaf_of(path);
    return leaves;
  }

  const ConfigTree& tree_;
  const OptionTable& table_;
  std::set<std::string> sections_;
  std::vector<std::string> option_paths_;  // paths of options, in the order of the table
  std::vector<std::string> errors_;
  size_t omitted_errors_ = 0;
};

}  // namespace

void explain_unknown_keys(KeyHint hint) { key_hint() = std::move(hint); }

void OptionTable::load(const ConfigTree& tree) {
  check();
  OptionLoader(tree, *this).run();
}

}  // namespace keel
