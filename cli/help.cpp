#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

#include "cli/commands.h"
#include "cli/methods.h"
#include "keel/compat/key_table.h"
#include "keel/core/console.h"
#include "keel/core/nearest.h"
#include "keel/core/options/yaml_text.h"
#include "keel/core/strings.h"
#include "keel/reward/reward_options.h"
#include "keel/task/task_table.h"
#include "keel/train/config/config.h"

namespace keel::cli {
namespace {

constexpr const char* kAllSettings = "settings";

std::string last_part(const std::string& path) { return path.substr(path.find_last_of('.') + 1); }

bool is_below(const std::string& path, const std::string& section) { return path.starts_with(section + "."); }

bool is_separator(char c) { return c == '_' || c == '.'; }

std::string describe_setting(const Option& option) {
  return option.path + "=" + yaml_inline(option.default_value) + "\n  " + option.help + "\n  Must be " +
         expected_text(option.target, option.limits) + ".\n";
}

/// Everything that `keel help` can explain.
class Topics {
 public:
  explicit Topics(const CommandLine& line) : line_(line) { config_.describe(table_); }

  /// One text for each thing with this name.
  std::vector<std::string> describe_all(const std::string& name) const {
    std::vector<std::string> texts;
    for (const Command& command : line_.commands())
      if (command.name() == name) texts.push_back(command.help());
    if (name == kAllSettings) texts.push_back(table_.help());
    add_settings(name, texts);
    for (const Method& method : methods())
      if (method.name == name) texts.push_back(describe(method));
    for (const TaskEntry& task : task_table())
      if (task.name == name) texts.push_back(task.name + ", a built-in task: " + task.summary + "\n");
    for (const BuiltInReward& reward : built_in_rewards())
      if (reward.name == name) texts.push_back(name + ", for reward.functions: " + reward.summary + "\n");
    if (const std::string external = compat::describe_key(name, compat::Names::kSuffixes); !external.empty())
      texts.push_back(external + "\n");
    return texts;
  }

  std::vector<std::string> native_names() const {
    std::vector<std::string> names;
    for (const Command& command : line_.commands()) names.push_back(command.name());
    names.emplace_back(kAllSettings);
    for (const Section& section : table_.sections()) names.push_back(section.path);
    for (const Option& option : table_.options()) names.push_back(option.path);
    for (const std::string& method : method_names()) names.push_back(method);
    for (const TaskEntry& task : task_table()) names.push_back(task.name);
    for (const BuiltInReward& reward : built_in_rewards())
      if (std::find(names.begin(), names.end(), reward.name) == names.end()) names.push_back(reward.name);
    return names;
  }

  /// Names that contain this word between separators: Keel's own, or else those of other trainers.
  std::vector<std::string> names_containing(const std::string& word) const {
    const auto has_word = [&](const std::string& name) {
      const std::string words = "_" + name + "_";
      for (size_t begin = words.find(word, 1); begin != std::string::npos; begin = words.find(word, begin + 1))
        if (is_separator(words[begin - 1]) && is_separator(words[begin + word.size()])) return true;
      return false;
    };
    for (const std::vector<std::string>& known : {native_names(), all_names()}) {
      std::vector<std::string> names;
      std::copy_if(known.begin(), known.end(), std::back_inserter(names), has_word);
      if (!names.empty()) return names;
    }
    return {};
  }

  std::vector<std::string> all_names() const {
    std::vector<std::string> names = native_names();
    for (const Option& option : table_.options()) names.push_back(last_part(option.path));
    for (const compat::KeyTable* table : compat::key_tables())
      for (const auto& [key, row] : table->rows()) names.push_back(key);
    return names;
  }

 private:
  void add_settings(const std::string& name, std::vector<std::string>& texts) const {
    for (const Section& section : table_.sections()) {
      if (section.path != name) continue;
      std::string text = section.path + ": " + section.help + "\n";
      for (const Option& option : table_.options())
        if (is_below(option.path, name)) text += "\n" + describe_setting(option);
      texts.push_back(text);
    }
    for (const Option& option : table_.options()) {
      if (option.path != name && last_part(option.path) != name) continue;
      texts.push_back(describe_setting(option));
    }
    for (const Refusal& removed : table_.refusals())
      if (removed.name == name) texts.push_back(name + " " + removed.fix + "\n");
  }

  const CommandLine& line_;
  Config config_;  // holds the values that table_ points to
  OptionTable table_;
};

ExitCode help(const CommandLine& line, const std::string& topic) {
  Console console;
  if (topic.empty()) {
    console.line(
        line.help() +
        "\nkeel help TOPIC explains a command, a setting (data.files), a section of settings (rollout), all of them "
        "(settings), a method (dppo_tv), a task (chains), a reward (math) or a TRL or verl name (num_generations).");
    return ExitCode::kDone;
  }
  const Topics topics(line);
  const std::vector<std::string> texts = topics.describe_all(topic);
  if (texts.empty()) {
    if (const std::vector<std::string> names = topics.names_containing(topic); !names.empty())
      fail(ExitCode::kBadConfiguration, "help: ", topic, " is not a name by itself; names that contain it are ",
           joined(names));
    const std::optional<std::string> suggestion = nearest_name(topic, topics.all_names());
    fail(ExitCode::kBadConfiguration, "help: ", topic, " is unknown; ",
         suggestion ? "did you mean " + *suggestion + "?"
                    : "expected a command, a setting, a section, a method, a task, a reward or a TRL or verl name. "
                      "keel help lists the commands, keel help settings the settings, keel methods the methods");
  }
  std::string text = joined(texts, "\n");
  while (text.ends_with('\n')) text.pop_back();
  console.line(text);
  return ExitCode::kDone;
}

}  // namespace

std::vector<std::string> help_topics(const CommandLine& line) { return Topics(line).native_names(); }

CommandHandler add_help(CommandLine& line) {
  const auto topic = std::make_shared<std::string>();
  Command command = line.add("help", "Explain a command, a setting, a method or a TRL or verl name");
  command.option("TOPIC", *topic, "The name: train, data.files, rollout, dppo_tv, num_generations, ...");
  return [&line, topic] { return help(line, *topic); };
}

}  // namespace keel::cli
