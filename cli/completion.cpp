// `keel completion`: shell completion of commands, options and settings.

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

/// A completion candidate with a line of help. The scripts expand @files, @folders, @list (files in [...]) and
/// "@settings PREFIX" themselves.
struct Candidate {
  std::string text, help = {};
};

/// Candidates by position on the command line:
///   ""               the command
///   COMMAND:-        its options
///   COMMAND:--model  the value of an option
///   COMMAND:2        its second positional argument; COMMAND:+ all further ones
///   "="              the keys of settings; =KEY the values of one
using CandidateTable = std::vector<std::pair<std::string, std::vector<Candidate>>>;

/// The text up to the first full stop or semicolon.
std::string first_sentence(const std::string& help) {
  const size_t end = std::min(help.find(". "), help.find("; "));
  std::string text = help.substr(0, end);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::vector<Candidate> argument_candidates(const CompletionHints& hints) {
  std::vector<Candidate> list;
  if (hints.files) list.push_back({"@files"});
  if (hints.folders) list.push_back({"@folders"});
  if (hints.settings) list.push_back({"@settings " + *hints.settings});
  for (const std::string& word : hints.words) list.push_back({word});
  return list;
}

void add_command(const Command& command, CandidateTable& table) {
  std::vector<Candidate> options;
  int position = 0;
  for (const ArgumentInfo& argument : command.arguments()) {
    for (const std::string& name : argument.names) {
      options.push_back({name, first_sentence(argument.help)});
      if (argument.takes_value) table.emplace_back(command.name() + ":" + name, argument_candidates(argument.hints));
    }
    if (!argument.names.empty()) continue;
    table.emplace_back(command.name() + ":" + (argument.takes_many ? "+" : std::to_string(++position)),
                       argument_candidates(argument.hints));
  }
  table.emplace_back(command.name() + ":-", options);
}

std::vector<Candidate> setting_values(const Option& option) {
  std::vector<Candidate> values;
  for (const std::string& choice : option.limits.choices()) values.push_back({choice});
  if (!values.empty()) return values;
  if (option.path == "objective.method") {  // has no fixed choices in the option table
    for (const Method& method : methods()) values.push_back({method.name, first_sentence(method.summary)});
    return values;
  }
  if (option.path == "task.name") {  // has no fixed choices in the option table
    for (const TaskEntry& task : task_table()) values.push_back({task.name, first_sentence(task.summary)});
    return values;
  }
  const auto has_type = [&]<class T>(T*) {
    return std::holds_alternative<T*>(option.target) || std::holds_alternative<std::optional<T>*>(option.target);
  };
  if (has_type(static_cast<bool*>(nullptr))) return {{"true"}, {"false"}};
  if (has_type(static_cast<std::string*>(nullptr))) return {{"@files"}};
  if (std::holds_alternative<std::vector<std::string>*>(option.target)) return {{"@list"}};
  return {};
}

CandidateTable make_table(const CommandLine& line) {
  CandidateTable table;
  std::vector<Candidate> commands, keys;
  for (const Command& command : line.commands()) {
    commands.push_back({command.name(), first_sentence(command.summary())});
    add_command(command, table);
  }
  for (const char* option : {"--help", "--version"}) commands.push_back({option});
  table.emplace_back("", commands);
  for (auto& [position, candidates] : table)
    if (position == "help:1")
      for (const std::string& topic : help_topics(line)) candidates.push_back({topic});
  Config config;
  OptionTable option_table;
  config.describe(option_table);
  for (const Option& option : option_table.options()) {
    keys.push_back({option.path + "=", first_sentence(option.help)});
    if (const std::vector<Candidate> values = setting_values(option); !values.empty())
      table.emplace_back("=" + option.path, values);
  }
  table.emplace_back("=model", std::vector<Candidate>{{"@files"}});  // short for model.path
  table.emplace_back("=", keys);
  return table;
}

std::string shell_quote(const std::string& text, bool fish) {
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

/// A shell function that prints the candidates of a position, one per line, and returns 1 for an unknown position.
std::string candidates_function(const CandidateTable& table, bool fish) {
  std::string text =
      fish ? "function __keel_candidates\n  switch \"$argv[1]\"\n" : "_keel_candidates() {\n  case $1 in\n";
  for (const auto& [position, candidates] : table) {
    text += fish ? "    case " + shell_quote(position, fish) + "\n" : "    " + shell_quote(position, fish) + ")\n";
    if (!candidates.empty()) text += "      printf '%s\\n'";
    for (const Candidate& candidate : candidates)
      text +=
          " \\\n        " + shell_quote(candidate.text + (candidate.help.empty() ? "" : "\t" + candidate.help), fish);
    text += candidates.empty() ? "" : "\n";
    text += fish ? "" : "      ;;\n";
  }
  return text + (fish ? "    case '*'\n      return 1\n  end\nend\n" : "    *) return 1 ;;\n  esac\n}\n");
}

}  // namespace

CommandHandler add_completion(CommandLine& line) {
  const auto shell = std::make_shared<std::string>();
  Command command = line.add("completion", "Print a shell script that completes keel's commands, options and settings");
  command.option("SHELL", *shell, "bash, zsh or fish").required().among({"bash", "zsh", "fish"});
  command.footer([] {
    return std::string(
        "Permanent installation (`cmake --install` does this):\n"
        "  keel completion bash > ~/.local/share/bash-completion/completions/keel   with bash-completion\n"
        "  keel completion bash > ~/.keel.bash; echo '. ~/.keel.bash' >> ~/.bashrc   without bash-completion\n"
        "  keel completion zsh > FOLDER/_keel   FOLDER in $fpath, before compinit\n"
        "  keel completion fish > ~/.config/fish/completions/keel.fish\n");
  });
  return [&line, shell] {
    const CandidateTable table = make_table(line);
    const std::string function = candidates_function(table, *shell == "fish");
    const char* script = *shell == "bash" ? kBashScript : *shell == "zsh" ? kZshScript : kFishScript;
    std::printf("%s# Generated by `keel completion %s`.\n\n%s%s", *shell == "zsh" ? "#compdef keel\n" : "",
                shell->c_str(), function.c_str(), script);
    return ExitCode::kDone;
  };
}

}  // namespace keel::cli
