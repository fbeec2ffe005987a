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

/// A sentence up to its first stop, without it: enough to tell a setting from another of its name.
std::string first_words(const std::string& help) {
  size_t end = help.find_first_of(".;:");
  while (end + 1 < help.size() && help[end + 1] != ' ') end = help.find_first_of(".;:", end + 1);  // rollout.seed
  return help.substr(0, end);
}

/// One load: walks over the tree, assigns what it finds and collects what is wrong.
class Loader {
 public:
  Loader(const ConfigTree& tree, const OptionTable& table) : tree_(tree), table_(table) {
    for (const Section& section : table.sections()) sections_.insert(section.path);
    for (const Option& option : table.options()) known_.push_back(option.path);
  }

  void run() {
    walk_children("", tree_.value);
    if (errors_.empty()) return;
    std::string message = joined(errors_, "\n");
    if (unlisted_ > 0) message += "\n... and " + std::to_string(unlisted_) + " more";
    throw Error(ExitCode::kBadConfiguration, message);
  }

 private:
  // The walk --------------------------------------------------------------------------------------------------------

  void walk_children(const std::string& path, const Json& mapping) {
    for (const auto& [key, value] : mapping.items()) walk(path.empty() ? key : path + "." + key, value);
  }

  void walk(const std::string& path, const Json& value) {
    const bool is_section = sections_.contains(path);
    if (is_section && value.is_object()) return walk_children(path, value);
    if (const Option* option = table_.find(path)) return assign(*option, path, value);
    for (const Refusal& refusal : table_.refusals())
      if (refusal.name == path) return complain(path, refusal.fix);
    if (!is_section) return unknown(path, value);
    const Option* shorthand = value.is_string() ? table_.find(path + ".path") : nullptr;
    if (shorthand != nullptr) return assign(*shorthand, path, value);
    const bool is_empty = value.is_null();  // every key is commented out
    if (!is_empty) complain(path, "got " + shown(value) + ", expected a section with keys " + joined(leaves_in(path)));
  }

  void assign(const Option& option, const std::string& name, const Json& value) {
    const auto complaint = assign_value(option.target, option.limits, value);
    if (!complaint) return;
    const std::string element = complaint->element ? "." + std::to_string(*complaint->element) : "";
    const std::string hint = value.is_null() ? "; leave the key out to get the default" : "";
    complain(name + element, complaint->text + hint);
  }

  // Complaints ------------------------------------------------------------------------------------------------------

  /// "run.yaml:3: rollout.temperature" or "command line: rollout.temperature=hot".
  std::string subject(const std::string& path) const {
    const std::string place = place_of(tree_, path);
    const Json* value = find_value(tree_, path);
    if (!on_command_line(tree_, path) || !value) return place + ": " + path;
    return place + ": " + path + "=" + value_text(*value, /*quoted=*/false);
  }

  void complain(const std::string& path, const std::string& text) {
    if (errors_.size() < kMaxErrors)
      errors_.push_back(subject(path) + ": " + text);
    else
      ++unlisted_;
  }

  void unknown(const std::string& path, const Json& value) {
    if (errors_.size() >= kMaxErrors) return complain(path, "");  // counted only: looking for names takes time
    const auto child = value.is_object() ? value.begin() : value.end();
    if (child != value.end() && !hint_about(path + "." + child.key()).empty())
      return unknown(path + "." + child.key(), child.value());
    complain(path, (value.is_object() ? "unknown section; " : "unknown key; ") + suggestion(path));
  }

  /// Only what was mistyped is corrected. A name that is known elsewhere is shown with its meaning.
  std::string suggestion(const std::string& path) const {
    const std::string section = parent_of(path), leaf = leaf_of(path), elsewhere = settings_called(leaf);
    if (const std::string hint = hint_about(path); !hint.empty()) return hint;
    if (section.empty() && !elsewhere.empty()) return elsewhere;
    if (const std::string slip = slip_of_one(path, paths_in(section)); !slip.empty()) return slip;
    if (!elsewhere.empty()) return elsewhere;
    if (const std::string slip = slip_of_one(path, known_); !slip.empty()) return slip;
    if (const std::string hint = hint_about(leaf); !hint.empty()) return hint;
    if (sections_.contains(section)) return "keys of " + section + " are " + joined(leaves_in(section));
    return "sections are " + joined(leaves_in(""));
  }

  /// "did you mean rollout.temperature?"; empty where the name is a slip of none.
  static std::string slip_of_one(const std::string& path, const std::vector<std::string>& names) {
    constexpr size_t kGuessable = 3;  // in no section, any two single letters are one slip apart
    if (parent_of(path).empty() && path.size() < kGuessable) return "";
    const auto near = nearest_name(path, names);
    return near && is_misspelling_of(path, *near) ? "did you mean " + *near + "?" : "";
  }

  /// "what has that name is rollout.temperature (Softmax temperature of sampling)"; empty where there is none. What is
  /// of the data comes first: elsewhere epochs are passes over them.
  std::string settings_called(const std::string& leaf) const {
    std::vector<std::string> texts;
    for (const std::string& name : {"data_" + leaf, leaf})
      for (const Option& option : table_.options())
        if (leaf_of(option.path) == name) texts.push_back(option.path + " (" + first_words(option.help) + ")");
    for (const Section& section : table_.sections())
      if (leaf_of(section.path) == leaf) texts.push_back(section.path + " (" + first_words(section.help) + ")");
    return texts.empty() ? "" : "what has that name is " + joined(texts, "; ");
  }

  /// Options and sections directly below `section`.
  std::vector<std::string> paths_in(const std::string& section) const {
    std::vector<std::string> paths;
    for (const std::string& path : known_)
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
  std::vector<std::string> known_;  // options, in the order of the table
  std::vector<std::string> errors_;
  size_t unlisted_ = 0;
};

}  // namespace

void explain_unknown_keys(KeyHint hint) { key_hint() = std::move(hint); }

void OptionTable::load(const ConfigTree& tree) {
  check();
  Loader(tree, *this).run();
}

}  // namespace keel
