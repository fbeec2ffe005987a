#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "keel/core/error.h"
#include "keel/core/nearest.h"
#include "keel/core/options/options.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

constexpr size_t kMaxErrors = 20;

std::string parent_of(const std::string& path) {
  const size_t dot = path.find_last_of('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string leaf_of(const std::string& path) { return path.substr(path.find_last_of('.') + 1); }

/// Words that every section could have, and that mean something by it alone.
bool says_nothing_alone(const std::string& leaf) {
  static const std::set<std::string> kWords = {"enable", "enabled", "len",  "log",  "metric",
                                               "mode",   "n",       "name", "path", "type"};
  return kWords.contains(leaf);
}

/// Whether a longer name has all words of a shorter one, or words that they begin, in its order: grad_accum.
bool has_words_of(const std::string& shorter, const std::string& longer) {
  constexpr size_t kTelling = 3;
  const std::string all = "_" + longer + "_";
  std::istringstream words(shorter);
  size_t at = 0;
  for (std::string word; std::getline(words, word, '_'); at += word.size() + 1)
    if (at = all.find("_" + word + (word.size() < kTelling ? "_" : ""), at); at == std::string::npos) return false;
  return true;
}

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
    for (const Option& option : table.options()) know(option.path);
    for (const Alias& alias : table.aliases()) know(alias.name);
    for (const Refusal& refusal : table.refusals()) know_above(refusal.name);
  }

  std::vector<std::string> run(const std::function<bool(const std::string& path)>& worth_a_note) {
    walk_children("", tree_.value);
    // In the order of the table, so that the order of keys in a file never changes what a converter sees.
    for (const Alias& alias : table_.aliases()) {
      const auto used = used_aliases_.find(alias.name);
      if (alias.converter && used != used_aliases_.end()) convert(alias, *used->second);
    }
    if (errors_.empty()) return notes(worth_a_note);
    std::string message = joined(errors_, "\n");
    if (unlisted_ > 0) message += "\n... and " + std::to_string(unlisted_) + " more";
    throw Error(ExitCode::kBadConfiguration, message);
  }

  const std::map<std::string, std::string>& given() const { return given_; }

 private:
  struct Note {
    const Alias* alias;
    std::string text;
  };

  // What is known ---------------------------------------------------------------------------------------------------

  void know(const std::string& path) {
    if (known_set_.insert(path).second) known_.push_back(path);
    know_above(path);
  }
  void know_above(const std::string& path) {
    for (std::string above = parent_of(path); !above.empty(); above = parent_of(above)) prefixes_.insert(above);
  }

  const Refusal* refusal(const std::string& path) const {
    for (const Refusal& refusal : table_.refusals()) {
      if (refusal.name == path) return &refusal;
    }
    return nullptr;
  }

  // The walk --------------------------------------------------------------------------------------------------------

  void walk_children(const std::string& path, const Json& mapping) {
    for (const auto& [key, value] : mapping.items()) walk(path.empty() ? key : path + "." + key, value);
  }

  void walk(const std::string& path, const Json& value) {
    const bool is_prefix = prefixes_.contains(path) || sections_.contains(path);
    if (is_prefix && value.is_object()) return walk_children(path, value);
    if (const Option* option = table_.find(path)) return static_cast<void>(assign(*option, path, value, ""));
    const bool empty_section = is_prefix && value.is_null();  // every key is commented out
    if (known_set_.contains(path) && !empty_section) return use_alias(path, value);
    if (const Refusal* refused = refusal(path)) {
      if (!refused->allows(value)) complain(path, refused->reason, refused->source);
      return;
    }
    if (!is_prefix) return unknown(path, value);
    if (!empty_section) {
      complain(path, "got " + shown(value) + ", wanted a section with keys " + joined(leaves_in(path)));
    }
  }

  void use_alias(const std::string& name, const Json& value) {
    used_aliases_[name] = &value;
    for (const Alias& alias : table_.aliases()) {
      if (alias.name != name || alias.converter) continue;
      const bool shorthand = alias.target.starts_with(name + ".");  // `model: path`, which is ours too
      const bool taken = assign(*table_.find(alias.target), name, value, alias.source);
      if (taken && !shorthand) notes_.push_back({&alias, name + " (" + alias.source + ") is " + alias.target});
    }
  }

  void convert(const Alias& alias, const Json& value) {
    Json converted;
    try {
      converted = alias.converter(value, tree_, table_);
    } catch (const Error& error) {
      return complain(alias.name, error.what(), alias.source);
    } catch (const Json::exception&) {  // the converter took it for another type
      return complain(alias.name, "got " + shown(value) + ", which says nothing about " + alias.target, alias.source);
    }
    if (converted.is_discarded()) return;
    if (assign(*table_.find(alias.target), alias.name, converted, alias.source))
      notes_.push_back(
          {&alias, alias.name + " (" + alias.source + ") is " + alias.target + " = " + value_text(converted)});
  }

  /// What other names were taken for, without those that the command line replaced after they were read.
  std::vector<std::string> notes(const std::function<bool(const std::string& path)>& worth_a_note) const {
    std::vector<std::string> texts;
    for (const Note& note : notes_)
      if (given_.at(note.alias->target) == note.alias->name && (!worth_a_note || worth_a_note(note.alias->target)))
        texts.push_back(note.text);
    return texts;
  }

  /// Gives an option the value found under `name`, its own or (with a source) another program's. False where the
  /// command line says otherwise.
  bool assign(const Option& option, const std::string& name, const Json& value, const std::string& source) {
    const auto [earlier, is_first] = given_.emplace(option.path, name);
    if (!is_first && on_command_line(name) != on_command_line(earlier->second)) {
      if (on_command_line(earlier->second)) return false;  // it wins over the file, whatever the name
      earlier->second = name;
    } else if (!is_first) {
      complain(name,
               "sets " + option.path + ", which " + earlier->second + " (" + place_of(tree_, earlier->second) +
                   ") sets too; keep one of them",
               source);
      return false;
    }
    const auto complaint = assign_value(option.target, option.limits, value);
    if (!complaint) return true;
    const std::string element = complaint->element ? "." + std::to_string(*complaint->element) : "";
    const std::string hint = value.is_null() ? "; leave the key out to get the default" : "";
    complain(name + element, complaint->text + hint, source);
    return false;
  }

  bool on_command_line(const std::string& name) const {
    const auto line = tree_.lines.find(name);
    return line != tree_.lines.end() && line->second == 0;
  }

  // Complaints ------------------------------------------------------------------------------------------------------

  /// "run.yaml:3: rollout.temperature" or "command line: rollout.temperature=hot".
  std::string subject(const std::string& path) const {
    const std::string place = place_of(tree_, path);
    const auto line = tree_.lines.find(path);
    const Json* value = find_value(tree_, path);
    if (line == tree_.lines.end() || line->second != 0 || !value) return place + ": " + path;
    return place + ": " + path + "=" + value_text(*value, /*quoted=*/false);
  }

  void complain(const std::string& path, const std::string& text, const std::string& source = "") {
    if (errors_.size() >= kMaxErrors) {
      ++unlisted_;
      return;
    }
    const Json* value = find_value(tree_, path);
    const bool refers =
        value != nullptr && value->is_string() && value->get<std::string>().find("${") != std::string::npos;
    const std::string error = subject(path) + (source.empty() ? "" : " (" + source + ")") + ": " + text +
                              (refers ? "; `keel import` resolves what ${...} refers to" : "");
    const bool is_told = std::find(errors_.begin(), errors_.end(), error) != errors_.end();  // of a name's other target
    if (!is_told) errors_.push_back(error);
  }

  void unknown(const std::string& path, const Json& value) {
    if (errors_.size() >= kMaxErrors) return complain(path, "");  // counted only: looking for names takes time
    complain(path, (value.is_object() ? "unknown section; " : "unknown key; ") + suggestion(path));
  }

  /// A hint that is followed must not set another thing: only what was mistyped is corrected. A name that is known
  /// elsewhere is shown with its meaning, and the reader decides.
  std::string suggestion(const std::string& path) const {
    const std::string section = parent_of(path), leaf = leaf_of(path);
    const std::string elsewhere = says_nothing_alone(leaf) ? "" : settings_called(leaf);
    if (section.empty() && !elsewhere.empty()) return elsewhere;
    std::vector<std::string> here = paths_in(section);
    for (const Refusal& refusal : table_.refusals())
      if (parent_of(refusal.name) == section) here.push_back(refusal.name);
    if (const std::string slip = slip_of_one(path, here); !slip.empty()) return slip;
    if (const std::string ours = ours_in(section, leaf); !ours.empty()) return ours;
    if (!elsewhere.empty()) return elsewhere;
    if (const std::string alias = alias_ending_in(leaf); !alias.empty() && !says_nothing_alone(leaf)) return alias;
    if (const std::string whole = sections_ending_in(leaf); !whole.empty()) return whole;
    std::vector<std::string> leaves;
    for (const Alias& alias : table_.aliases())
      if (is_slip_of(leaf, leaf_of(alias.name))) leaves.push_back(leaf_of(alias.name));
    constexpr size_t kGuessable = 5;  // any two short names are two slips apart
    if (leaf.size() >= kGuessable && !leaves.empty() && !says_nothing_alone(leaf))
      if (const auto near = nearest_name(leaf, leaves)) return alias_ending_in(*near);
    if (const std::string slip = slip_of_one(path, known_); !slip.empty()) return slip;
    if (const std::string longer = names_with_words_of(leaf); !longer.empty()) return longer;
    if (!section.empty()) return "keys of " + section + " are " + joined(leaves_in(section));
    std::vector<std::string> sections;
    for (const Section& known : table_.sections()) {
      if (parent_of(known.path).empty()) sections.push_back(known.path);
    }
    return "sections are " + joined(sections);
  }

  /// "did you mean rollout.temperature?"; empty where the name is a slip of none.
  std::string slip_of_one(const std::string& path, const std::vector<std::string>& names) const {
    constexpr size_t kGuessable = 3;  // in no section, any two single letters are one slip apart
    if (parent_of(path).empty() && path.size() < kGuessable) return "";
    const auto near = nearest_name(path, names);
    if (!near || !is_slip_of(path, *near)) return "";
    const Refusal* refused = refusal(*near);  // which would only be told when it is tried
    return "did you mean " + *near + "?" + (refused == nullptr ? "" : " Of that: " + refused->reason);
  }

  /// "what has that name is rollout.temperature (Softmax temperature of sampling)"; empty where there is none.
  std::string settings_called(const std::string& leaf) const {
    const std::string found = settings_with_meaning(leaf);
    return found.empty() ? "" : "what has that name is " + found;
  }

  /// The settings and sections of that name. What is of the data comes first: elsewhere epochs are passes over them.
  std::string settings_with_meaning(const std::string& leaf) const {
    std::vector<std::string> texts;
    for (const std::string& name : {"data_" + leaf, leaf})
      for (const Option& option : table_.options())
        if (leaf_of(option.path) == name) texts.push_back(option.path + " (" + first_words(option.help) + ")");
    for (const Section& section : table_.sections())
      if (leaf_of(section.path) == leaf) texts.push_back(section.path + " (" + first_words(section.help) + ")");
    return joined(texts, "; ");
  }

  /// "did you mean critic.lr?" for critic.learning_rate, where another program's learning_rate is the lr of a section;
  /// empty where this section has none.
  std::string ours_in(const std::string& section, const std::string& leaf) const {
    for (const Alias& alias : table_.aliases()) {
      const std::string ours = section + "." + leaf_of(alias.target);
      if (leaf_of(alias.name) != leaf || table_.find(ours) == nullptr) continue;
      if (says_nothing_alone(leaf) && leaf_of(parent_of(alias.name)) != section) continue;
      return alias.target == ours ? alias_ending_in(leaf) : "did you mean " + ours + "?";
    }
    return "";
  }

  /// "verl's actor_rollout_ref.actor.clip_ratio is objective.delta_low and objective.delta_high here, for a loss that
  /// clips the ratio"
  std::string alias_ending_in(const std::string& leaf) const {
    const Alias* found = nullptr;
    std::vector<std::string> targets;
    for (const Alias& alias : table_.aliases()) {
      if (leaf_of(alias.name) != leaf || (found != nullptr && found->name != alias.name)) continue;
      if (found == nullptr) found = &alias;
      targets.push_back(alias.target);
    }
    if (found == nullptr) return "";
    return found->source + "'s " + found->name + " is " + joined(targets, " and ") + " here" +
           (found->conversion.empty() ? "" : ": " + found->conversion);
  }

  /// What a name with words left out or cut short may stand for, gradient_accumulation for
  /// gradient_accumulation_steps: shown with what it means, since another word may make it another thing. Empty where
  /// there is none, or too many to choose from.
  std::string names_with_words_of(const std::string& leaf) const {
    constexpr size_t kToChooseFrom = 3;
    if (leaf.find('_') == std::string::npos) return "";  // one word is in too many names
    std::vector<std::string> found, texts;
    for (const std::string& name : known_)
      if (has_words_of(leaf, leaf_of(name)) && std::ranges::find(found, leaf_of(name)) == found.end())
        found.push_back(leaf_of(name));
    if (found.empty() || found.size() > kToChooseFrom) return "";
    for (const std::string& name : found)
      for (const std::string& text : {settings_with_meaning(name), alias_ending_in(name)})
        if (!text.empty()) texts.push_back(text);
    return "with these words: " + joined(texts, "; ");
  }

  /// "did you mean algorithm.kl_ctrl?" for kl_ctrl; empty where no section ends in that name.
  std::string sections_ending_in(const std::string& leaf) const {
    std::vector<std::string> found;
    for (const std::string& path : prefixes_)
      if (leaf_of(path) == leaf) found.push_back(path);
    return found.empty() ? "" : "did you mean " + joined(found, " or ") + "?";
  }

  /// Known options, aliases and sections directly below `section`.
  std::vector<std::string> paths_in(const std::string& section) const {
    std::vector<std::string> paths;
    for (const std::set<std::string>* names : {&known_set_, &prefixes_}) {
      for (const std::string& path : *names) {
        if (parent_of(path) == section) paths.push_back(path);
      }
    }
    return paths;
  }

  std::vector<std::string> leaves_in(const std::string& section) const {
    std::vector<std::string> leaves = paths_in(section);
    const bool all_refused = leaves.empty();  // a section of another program's
    for (const Refusal& refusal : table_.refusals())
      if (all_refused && parent_of(refusal.name) == section) leaves.push_back(refusal.name);
    for (std::string& path : leaves) path = leaf_of(path);
    return leaves;
  }

  const ConfigTree& tree_;
  const OptionTable& table_;
  std::set<std::string> sections_;
  std::vector<std::string> known_;                   // options and aliases, in the order of the table
  std::set<std::string> known_set_;                  // the same
  std::set<std::string> prefixes_;                   // every path that leads to a known or refused name
  std::map<std::string, const Json*> used_aliases_;  // name to its value in the tree
  std::map<std::string, std::string> given_;         // option to the name that set it
  std::vector<Note> notes_;
  std::vector<std::string> errors_;
  size_t unlisted_ = 0;
};

}  // namespace

std::vector<std::string> OptionTable::load(const ConfigTree& tree,
                                           const std::function<bool(const std::string& path)>& worth_a_note) {
  check();
  Loader loader(tree, *this);
  std::vector<std::string> notes = loader.run(worth_a_note);
  given_ = loader.given();
  return notes;
}

}  // namespace keel
