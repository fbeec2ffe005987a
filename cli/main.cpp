#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/failure.h"
#include "keel/compat/key_table.h"
#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/interrupt.h"
#include "keel/core/nearest.h"
#include "keel/core/strings.h"
#include "keel/train/config/config.h"

namespace {

using keel::ExitCode;
using keel::cli::Argument;
using keel::cli::Command;
using keel::cli::CommandLine;
using keel::cli::ParseResult;

/// Opens /dev/null for closed standard streams: the next opened file would otherwise receive what is printed.
void keep_standard_streams_open() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    if (fcntl(descriptor, F_GETFD) == -1 && open("/dev/null", O_RDWR) != descriptor)
      _exit(static_cast<int>(ExitCode::kInternal));
}

/// Shortens lines above 4000 bytes to their first and last 1000, since a huge value would hide the message.
std::string shorten_long_lines(std::string_view message) {
  constexpr size_t kHeadBytes = 1000, kTailBytes = 1000;
  std::string result;
  for (size_t begin = 0; begin <= message.size();) {
    const size_t end = std::min(message.find('\n', begin), message.size());
    const std::string_view line = message.substr(begin, end - begin);
    result += begin == 0 ? "" : "\n";
    if (line.size() <= 2 * (kHeadBytes + kTailBytes)) {
      result += line;
    } else {
      size_t tail = line.size() - kTailBytes;
      while (tail < line.size() && (static_cast<unsigned char>(line[tail]) & 0xC0) == 0x80) ++tail;  // whole characters
      result += keel::shorten(line.substr(0, tail), kHeadBytes) + " … " + std::string(line.substr(tail));
    }
    begin = end + 1;
  }
  return result;
}

/// Escapes control characters, since a message may quote an untrusted file.
std::string escape_for_terminal(std::string_view message) {
  return keel::escape_controls(shorten_long_lines(message), keel::Newlines::kKeep);
}

/// Runs before the static initialisers of the libraries, which take a large part of a second, so that signals in
/// that time are handled.
void initialize_early() {
  keep_standard_streams_open();
  keel::install_signal_handlers();
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeLibraries)() = initialize_early;

/// Reports an unknown command by name; CLI11 would only report that a command is missing.
bool explain_unknown_command(const CommandLine& line, std::string_view word) {
  std::vector<std::string> names;
  for (const Command& command : line.commands()) names.push_back(command.name());
  if (word.empty() || word.starts_with('-') || std::find(names.begin(), names.end(), word) != names.end()) return false;
  const std::optional<std::string> suggestion = keel::nearest_name(word, names);
  std::fprintf(stderr, "keel: %s is not a command; %s\nRun with --help for more information.\n",
               escape_for_terminal(word).c_str(),
               (suggestion ? "did you mean " + *suggestion + "?" : "commands are " + keel::joined(names)).c_str());
  return true;
}

/// Settings with the name of an option: "rollout.temperature=VALUE" for --temperature. Names in section data come
/// first. For `keel eval`, only settings of section eval are returned, if there are any.
std::string suggest_settings(const std::string& name, const std::string& command) {
  keel::Config config;
  keel::OptionTable table;
  config.describe(table);
  std::string key_name = name;
  std::replace(key_name.begin(), key_name.end(), '-', '_');
  std::vector<std::string> settings, eval_settings;
  for (const std::string& ending : {".data_" + key_name, "." + key_name})
    for (const keel::Option& option : table.options()) {
      if (!("." + option.path).ends_with(ending)) continue;
      settings.push_back(option.path + "=VALUE");
      if (option.path.starts_with("eval.")) eval_settings.push_back(settings.back());
    }
  std::ranges::stable_partition(settings, [](const std::string& setting) { return !setting.starts_with("sft."); });
  const bool for_eval = command == "eval" && !eval_settings.empty();
  return settings.empty() ? "KEY=VALUE" : keel::joined(for_eval ? eval_settings : settings, " or ");
}

/// Reports an unknown option before CLI11 reports a missing one, since the former is probably a misspelling of the
/// latter.
bool explain_unknown_option(const CommandLine& line, int argc, char** argv) {
  std::optional<Command> command;
  for (const Command& candidate : line.commands())
    if (argc > 1 && candidate.name() == argv[1]) command = candidate;
  if (!command) return false;
  for (int i = 2; i < argc; ++i) {
    const std::string word(argv[i]);
    if (word == "--") return false;
    const bool is_number = word.size() > 1 && (std::isdigit(static_cast<unsigned char>(word[1])) || word[1] == '.');
    if (!word.starts_with('-') || word == "-" || is_number) continue;
    const std::string name = word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2);  // -n4
    if (const std::optional<Argument> known = command->find(name)) {
      i += known->takes_value() && word == name ? 1 : 0;
      continue;
    }
    const std::vector<std::string> names = command->long_names();
    const bool has_settings = command->find("OVERRIDES") && name.starts_with("--");
    const std::string settings =
        has_settings ? "; settings are written without dashes, as " + suggest_settings(name.substr(2), argv[1]) : "";
    if (name == "--config" && command->find("CONFIG")) {
      std::fprintf(stderr, "keel: --config is not an option of %s; the file is an argument: keel %s FILE\n", argv[1],
                   argv[1]);
      return true;
    }
    const std::optional<std::string> suggestion = keel::nearest_name(name, names);
    std::fprintf(
        stderr, "keel: %s is not an option of %s; %s\nRun with --help for more information.\n",
        escape_for_terminal(name).c_str(), argv[1],
        (suggestion ? "did you mean " + *suggestion + "?" : "it has " + keel::joined(names) + settings).c_str());
    return true;
  }
  return false;
}

/// Returns whether a command trains. The run then calls begin_command() itself, once there is a checkpoint to resume
/// from.
bool is_training_command(std::string_view command) {
  return command == "train" || command == "sft" || command == "quickstart";
}

/// Returns whether a command does more than print, so that it continues after its output was closed.
bool writes_files(std::string_view command) {
  return is_training_command(command) || command == "eval" || command == "convert" || command == "export";
}

/// Reports settings that are written as --key=value or after --set, as in other programs.
bool explain_dashed_setting(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    const std::string_view word(argv[i]);
    const std::string_view key = word.substr(0, word.find('='));  // no option of Keel has a dot
    const bool is_setting = word == "--set" || (key.starts_with("--") && key.find('.') != std::string_view::npos);
    if (!is_setting) continue;
    const std::string example = word == "--set" ? "train.steps=5" : std::string(key.substr(2)) + "=VALUE";
    std::fprintf(stderr, "keel: %s is not an option; settings are written without dashes, as %s\n",
                 escape_for_terminal(word).c_str(), escape_for_terminal(example).c_str());
    return true;
  }
  return false;
}

/// Rejects "--stop=", for which CLI11 would take the next argument as the value.
bool explain_empty_option(int argc, char** argv) {
  for (int i = 2; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word(argv[i]);
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    const auto name_length = static_cast<int>(word.size() - 1);
    std::fprintf(stderr, "keel: %s has no value; write %.*s VALUE, or remove it\n", argv[i], name_length, argv[i]);
    return true;
  }
  return false;
}

/// LibTorch crashes with a smaller stack.
void require_stack() {
  constexpr rlim_t kMinStack = 256 << 10;
  rlimit stack{};
  if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < kMinStack)
    keel::fail(ExitCode::kHealthGuard, "the stack is limited to ", stack.rlim_cur >> 10, " KiB; expected at least ",
               kMinStack >> 10, " (ulimit -s 8192)");
}

/// Runs the chosen command and maps every exception to an exit code.
int run(const keel::cli::CommandHandler& handler) {
  try {
    require_stack();
    const ExitCode code = handler();
    // Buffered output may fail to reach a full disk.
    const bool write_failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
    if (write_failed && !keel::is_closed_pipe(STDOUT_FILENO))
      keel::fail(ExitCode::kHealthGuard, "standard output could not be written (is the disk full?)");
    return static_cast<int>(code);
  } catch (const keel::Interrupted&) {
    keel::end_interrupted();
  } catch (const std::exception& error) {
    const keel::cli::Failure failure = keel::cli::describe_failure(error);
    std::fprintf(stderr, "keel: %s\n", escape_for_terminal(failure.message).c_str());
    return static_cast<int>(failure.code);
  }
}

}  // namespace

int main(int argc, char** argv) {
  keel::explain_unknown_keys([](const std::string& key) {
    const std::string description = keel::compat::describe_key(key);
    return description.empty() ? description : description + "; `keel import` converts configurations of TRL and verl";
  });
  CommandLine line("Keel fine-tunes language models with reinforcement learning under a divergence trust region.",
                   "keel", keel::cli::version_line, escape_for_terminal);
  std::vector<std::pair<Command, keel::cli::CommandHandler>> commands;
  for (const auto add :
       {keel::cli::add_quickstart, keel::cli::add_train,   keel::cli::add_sft,      keel::cli::add_eval,
        keel::cli::add_study,      keel::cli::add_report,  keel::cli::add_watch,    keel::cli::add_export,
        keel::cli::add_tokens,     keel::cli::add_advise,  keel::cli::add_generate, keel::cli::add_chat,
        keel::cli::add_methods,    keel::cli::add_tasks,   keel::cli::add_verify,   keel::cli::add_reward,
        keel::cli::add_inspect,    keel::cli::add_convert, keel::cli::add_import,   keel::cli::add_doctor,
        keel::cli::add_completion, keel::cli::add_help}) {
    const keel::cli::CommandHandler handler = add(line);
    commands.emplace_back(line.commands().back(), handler);
  }
  if (argc == 1) {
    std::fprintf(stderr, "%s\nA subcommand is required\n", line.help().c_str());
    return static_cast<int>(ExitCode::kBadConfiguration);
  }
  if (explain_empty_option(argc, argv)) return static_cast<int>(ExitCode::kBadConfiguration);
  const ParseResult result = line.parse(argc, argv, [&] {
    return explain_unknown_command(line, argc > 1 ? argv[1] : "") || explain_dashed_setting(argc, argv) ||
           explain_unknown_option(line, argc, argv);
  });
  if (result == ParseResult::kHelp) return static_cast<int>(ExitCode::kDone);
  for (const auto& [command, handler] : commands) {
    if (result == ParseResult::kError || !command.chosen()) continue;
    if (!writes_files(command.name())) keel::exit_on_closed_pipe();
    if (!is_training_command(command.name())) keel::begin_command();
    return run(handler);
  }
  return static_cast<int>(ExitCode::kBadConfiguration);
}
