#include <algorithm>
#include <cstdio>
#include <memory>
#include <variant>
#include <vector>

#include "cli/commands.h"
#include "cli/completion_scripts.h"
#include "keel/objective/methods.h"
#include "keel/task/task_table.h"
#include "keel/train/config/config.h"

namespace keel::cli {
namespace {

/// What may stand at a place of a command line: a word with a line on what it is, or @files, @folders, @list (files in
/// [...]) or "@settings BEGIN", which the scripts look up themselves.
struct Offer {
  std::string word, about = {};
};

/// Places and what is offered there. "" is the command's; COMMAND:- are its options, COMMAND:--model what stands behind
/// one that takes a value, COMMAND:2 its second word and COMMAND:+ all that follow; "=" are the keys of settings, and
/// =KEY the values of one.
using Places = std::vector<std::pair<std::string, std::vector<Offer>>>;

/// Up to the first stop.
std::string first_sentence(const std::string& help) {
  const size_t end = std::min(help.find(". "), help.find("; "));
  std::string text = help.substr(0, end);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::vector<Offer> offers_of(const CompletionHints& hints) {
  std::vector<Offer> list;
  if (hints.files) list.push_back({"@files"});
  if (hints.folders) list.push_back({"@folders"});
  if (hints.settings) list.push_back({"@settings " + *hints.settings});
  for (const std::string& word : hints.words) list.push_back({word});
  return list;
}

void add_command(const Command& command, Places& places) {
  std::vector<Offer> options;
  int place = 0;
  for (const ArgumentInfo& row : command.arguments()) {
    for (const std::string& name : row.names) {
      options.push_back({name, first_sentence(row.help)});
      if (row.takes_value) places.emplace_back(command.name() + ":" + name, offers_of(row.hints));
    }
    if (!row.names.empty()) continue;
    places.emplace_back(command.name() + ":" + (row.repeats ? "+" : std::to_string(++place)), offers_of(row.hints));
  }
  places.emplace_back(command.name() + ":-", options);
}

std::vector<Offer> values_of(const Option& option) {
  std::vector<Offer> values;
  for (const std::string& choice : option.limits.choices()) values.push_back({choice});
  if (!values.empty()) return values;
  if (option.path == "objective.method") {  // checked where the table of methods is
    for (const Method& method : methods()) values.push_back({method.name, first_sentence(method.summary)});
    return values;
  }
  if (option.path == "task.name") {  // checked where the table of tasks is
    for (const TaskEntry& task : task_table()) values.push_back({task.name, first_sentence(task.sentence)});
    return values;
  }
  const auto is = [&]<class T>(T*) {
    return std::holds_alternative<T*>(option.target) || std::holds_alternative<std::optional<T>*>(option.target);
  };
  if (is(static_cast<bool*>(nullptr))) return {{"true"}, {"false"}};
  if (is(static_cast<std::string*>(nullptr))) return {{"@files"}};
  if (std::holds_alternative<std::vector<std::string>*>(option.target)) return {{"@list"}};
  return {};
}

Places all_places(const CommandLine& line) {
  Places places;
  std::vector<Offer> commands, keys;
  for (const Command& command : line.commands()) {
    commands.push_back({command.name(), first_sentence(command.summary())});
    add_command(command, places);
  }
  for (const char* option : {"--help", "--version"}) commands.push_back({option});
  places.emplace_back("", commands);
  for (auto& [place, offers] : places)
    if (place == "help:1")
      for (const std::string& topic : help_topics(line)) offers.push_back({topic});
  Config config;
  OptionTable table;
  config.describe(table);
  for (const Option& option : table.options()) {
    keys.push_back({option.path + "=", first_sentence(option.help)});
    if (const std::vector<Offer> values = values_of(option); !values.empty())
      places.emplace_back("=" + option.path, values);
  }
  places.emplace_back("=model", std::vector<Offer>{{"@files"}});  // which is model.path
  places.emplace_back("=", keys);
  return places;
}

std::string quoted(const std::string& text, bool fish) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'')
      out += fish ? "\\'" : "'\\''";
    else if (c == '\\' && fish)
      out += "\\\\";
    else
      out += c;
  }
  return out + "'";
}

/// The function that answers with the offers of a place, one per line, and with 1 where there is no such place.
std::string lookup(const Places& places, bool fish) {
  std::string text = fish ? "function __keel_offers\n  switch \"$argv[1]\"\n" : "_keel_offers() {\n  case $1 in\n";
  for (const auto& [place, offers] : places) {
    text += fish ? "    case " + quoted(place, fish) + "\n" : "    " + quoted(place, fish) + ")\n";
    if (!offers.empty()) text += "      printf '%s\\n'";
    for (const Offer& offer : offers)
      text += " \\\n        " + quoted(offer.word + (offer.about.empty() ? "" : "\t" + offer.about), fish);
    text += offers.empty() ? "" : "\n";
    text += fish ? "" : "      ;;\n";
  }
  return text + (fish ? "    case '*'\n      return 1\n  end\nend\n" : "    *) return 1 ;;\n  esac\n}\n");
}

}  // namespace

CommandHandler add_completion(CommandLine& line) {
  const auto shell = std::make_shared<std::string>();
  Command command = line.add("completion", "A script that lets a shell complete keel's commands, options and settings");
  command.option("SHELL", *shell, "bash, zsh or fish").required().among({"bash", "zsh", "fish"});
  command.footer([] {
    return std::string(
        "To switch it on for good (`cmake --install` puts it there by itself):\n"
        "  keel completion bash > ~/.local/share/bash-completion/completions/keel   with the package bash-completion\n"
        "  keel completion bash > ~/.keel.bash; echo '. ~/.keel.bash' >> ~/.bashrc   without it\n"
        "  keel completion zsh > FOLDER/_keel   a folder of $fpath, before compinit is called\n"
        "  keel completion fish > ~/.config/fish/completions/keel.fish\n");
  });
  return [&line, shell] {
    const Places places = all_places(line);
    const std::string table = lookup(places, *shell == "fish");
    const char* script = *shell == "bash" ? kBashScript : *shell == "zsh" ? kZshScript : kFishScript;
    std::printf("%s# Made by `keel completion %s`.\n\n%s%s", *shell == "zsh" ? "#compdef keel\n" : "", shell->c_str(),
                table.c_str(), script);
    return ExitCode::kDone;
  };
}

}  // namespace keel::cli
