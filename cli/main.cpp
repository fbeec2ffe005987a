#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "keel/compat/key_table.h"
#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/interrupt.h"
#include "keel/core/nearest.h"
#include "keel/core/parallel.h"
#include "keel/core/strings.h"
#include "keel/core/tensor/device.h"
#include "keel/train/config/config.h"

namespace {

using keel::ExitCode;
using keel::cli::Argument;
using keel::cli::Command;
using keel::cli::CommandLine;
using keel::cli::ParseResult;

/// A closed standard stream is a free descriptor: the next file opened would get it, and printed lines would end up
/// there.
void keep_standard_streams_open() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    if (fcntl(descriptor, F_GETFD) == -1 && open("/dev/null", O_RDWR) != descriptor)
      _exit(static_cast<int>(ExitCode::kInternal));
}

/// A value of some 100 KB would hide what is said of it: of a long line the beginning and the end stay.
std::string with_short_lines(std::string_view message) {
  constexpr size_t kHead = 1000, kTail = 1000;
  std::string result;
  for (size_t begin = 0; begin <= message.size();) {
    const size_t end = std::min(message.find('\n', begin), message.size());
    const std::string_view line = message.substr(begin, end - begin);
    result += begin == 0 ? "" : "\n";
    if (line.size() <= 2 * (kHead + kTail)) {
      result += line;
    } else {
      size_t tail = line.size() - kTail;
      while (tail < line.size() && (static_cast<unsigned char>(line[tail]) & 0xC0) == 0x80) ++tail;
      result += keel::shorten(line.substr(0, tail), kHead) + " … " + std::string(line.substr(tail));
    }
    begin = end + 1;
  }
  return result;
}

/// A message may quote a file that strangers wrote.
std::string visible(std::string_view message) {
  return keel::escape_controls(with_short_lines(message), keel::Newlines::kKeep);
}

/// The libraries take a good part of a second to get ready, and a signal in it is not to be a death without a word:
/// this comes before them.
void begin() {
  keep_standard_streams_open();
  keel::install_signal_handlers();
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeLibraries)() = begin;

/// The library's word for a first argument that is no command is that a command is missing; this one names it.
bool complain_about_command(const CommandLine& line, std::string_view word) {
  std::vector<std::string> names;
  for (const Command& command : line.commands()) names.push_back(command.name());
  if (word.empty() || word.starts_with('-') || std::find(names.begin(), names.end(), word) != names.end()) return false;
  const std::optional<std::string> near = keel::nearest_name(word, names);
  std::fprintf(stderr, "keel: %s is not a command; %s\nRun with --help for more information.\n", visible(word).c_str(),
               (near ? "did you mean " + *near + "?" : "commands are " + keel::joined(names)).c_str());
  return true;
}

/// The settings of a configuration that an option's name may mean: "rollout.temperature=VALUE". An evaluation's own
/// come before those of training, and what is of the data before all else: elsewhere epochs are passes over them.
std::string settings_called(const std::string& name, const std::string& command) {
  keel::Config config;
  keel::OptionTable table;
  config.describe(table);
  std::string leaf = name;
  std::replace(leaf.begin(), leaf.end(), '-', '_');
  std::vector<std::string> settings, of_evaluations;
  for (const std::string& ending : {".data_" + leaf, "." + leaf})
    for (const keel::Option& option : table.options()) {
      if (!("." + option.path).ends_with(ending)) continue;
      settings.push_back(option.path + "=VALUE");
      if (option.path.starts_with("eval.")) of_evaluations.push_back(settings.back());
    }
  std::ranges::stable_partition(settings, [](const std::string& setting) { return !setting.starts_with("sft."); });
  const bool evaluates = command == "eval" && !of_evaluations.empty();
  return settings.empty() ? "KEY=VALUE" : keel::joined(evaluates ? of_evaluations : settings, " or ");
}

/// An option that the command does not have is named before one that is missing is asked for: most likely the one is
/// the other, misspelt.
bool complain_about_option(const CommandLine& line, int argc, char** argv) {
  std::optional<Command> command;
  for (const Command& each : line.commands())
    if (argc > 1 && each.name() == argv[1]) command = each;
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
        has_settings ? "; settings are written without dashes, as " + settings_called(name.substr(2), argv[1]) : "";
    if (name == "--config" && command->find("CONFIG")) {
      std::fprintf(stderr, "keel: --config is not an option of %s; the file is named alone: keel %s FILE\n", argv[1],
                   argv[1]);
      return true;
    }
    const std::optional<std::string> near = keel::nearest_name(name, names);
    std::fprintf(stderr, "keel: %s is not an option of %s; %s\nRun with --help for more information.\n",
                 visible(name).c_str(), argv[1],
                 (near ? "did you mean " + *near + "?" : "it has " + keel::joined(names) + settings).c_str());
    return true;
  }
  return false;
}

/// Whether a command makes a run, which begins when it has something to be resumed from.
bool makes_a_run(std::string_view command) { return command == "train" || command == "sft" || command == "quickstart"; }

/// Whether a command does more than print, so that it goes on when nobody reads.
bool has_work_to_finish(std::string_view command) {
  return makes_a_run(command) || command == "eval" || command == "convert" || command == "export";
}

/// Other programs take settings as --key=value or behind --set.
bool complain_about_dashes(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    const std::string_view word(argv[i]);
    const std::string_view key = word.substr(0, word.find('='));  // no option of ours has a dot
    const bool is_setting = word == "--set" || (key.starts_with("--") && key.find('.') != std::string_view::npos);
    if (!is_setting) continue;
    const std::string written = word == "--set" ? "train.steps=5" : std::string(key.substr(2)) + "=VALUE";
    std::fprintf(stderr, "keel: %s is not an option; settings are written without dashes, as %s\n",
                 visible(word).c_str(), visible(written).c_str());
    return true;
  }
  return false;
}

/// "--stop=" would take the next word as its value, whatever that is.
bool complain_about_empty_option(int argc, char** argv) {
  for (int i = 2; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word(argv[i]);
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    const auto name = static_cast<int>(word.size() - 1);
    std::fprintf(stderr, "keel: %s has nothing behind it; write %.*s VALUE, or leave it out\n", argv[i], name, argv[i]);
    return true;
  }
  return false;
}

/// With less, LibTorch would end in a crash.
void require_stack() {
  constexpr rlim_t kLeast = 256 << 10;
  rlimit stack{};
  if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < kLeast)
    keel::fail(ExitCode::kHealthGuard, "the stack is limited to ", stack.rlim_cur >> 10, " KiB; expected at least ",
               kLeast >> 10, " (ulimit -s 8192)");
}

/// Runs the chosen command; every way an error can leave it has its exit code.
int run(const keel::cli::CommandHandler& action) {
  try {
    require_stack();
    const ExitCode code = action();
    // What was printed may still be on its way: to a full disk, say, where it would be lost without a word.
    const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
    if (lost && !keel::nobody_reads(STDOUT_FILENO))
      keel::fail(ExitCode::kHealthGuard, "what was printed could not be written (is the disk full?)");
    return static_cast<int>(code);
  } catch (const keel::Interrupted&) {
    keel::end_interrupted();
  } catch (const keel::Error& error) {
    std::fprintf(stderr, "keel: %s\n", visible(error.what()).c_str());
    return static_cast<int>(error.code());
  } catch (const std::filesystem::filesystem_error& error) {
    std::fprintf(stderr, "keel: %s; check the path and its permissions\n", visible(error.what()).c_str());
    return static_cast<int>(ExitCode::kBadConfiguration);
  } catch (const std::exception& error) {
    if (keel::is_out_of_memory(error)) {
      std::fprintf(stderr,
                   "keel: out of memory; lower train.tokens_per_batch, rollout.max_sequences or the model's "
                   "sizes. The last checkpoint is sound\n");
      return static_cast<int>(ExitCode::kHealthGuard);
    }
    const auto* const system = dynamic_cast<const std::system_error*>(&error);
    if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
      std::fprintf(stderr, "keel: no more threads could be made. %s. The last checkpoint is sound\n",
                   keel::kThreadLimits);
      return static_cast<int>(ExitCode::kHealthGuard);
    }
    std::fprintf(stderr, "keel: internal error: %s\n", visible(error.what()).c_str());
    return static_cast<int>(ExitCode::kInternal);
  }
}

}  // namespace

int main(int argc, char** argv) {
  keel::explain_unknown_keys([](const std::string& key) {
    const std::string meaning = keel::compat::meaning_of(key);
    return meaning.empty() ? meaning : meaning + "; `keel import` converts configurations of TRL and verl";
  });
  CommandLine line("Keel fine-tunes language models with reinforcement learning under a divergence trust region.",
                   "keel", keel::cli::version_line, visible);
  std::vector<std::pair<Command, keel::cli::CommandHandler>> commands;
  for (const auto add :
       {keel::cli::add_quickstart, keel::cli::add_train,   keel::cli::add_sft,      keel::cli::add_eval,
        keel::cli::add_study,      keel::cli::add_report,  keel::cli::add_watch,    keel::cli::add_export,
        keel::cli::add_tokens,     keel::cli::add_advise,  keel::cli::add_generate, keel::cli::add_chat,
        keel::cli::add_methods,    keel::cli::add_tasks,   keel::cli::add_verify,   keel::cli::add_reward,
        keel::cli::add_inspect,    keel::cli::add_convert, keel::cli::add_import,   keel::cli::add_doctor,
        keel::cli::add_completion, keel::cli::add_help}) {
    const keel::cli::CommandHandler action = add(line);
    commands.emplace_back(line.commands().back(), action);
  }
  if (argc == 1) {
    std::fprintf(stderr, "%s\nA subcommand is required\n", line.help().c_str());
    return static_cast<int>(ExitCode::kBadConfiguration);
  }
  if (complain_about_empty_option(argc, argv)) return static_cast<int>(ExitCode::kBadConfiguration);
  const ParseResult reading = line.parse(argc, argv, [&] {
    return complain_about_command(line, argc > 1 ? argv[1] : "") || complain_about_dashes(argc, argv) ||
           complain_about_option(line, argc, argv);
  });
  if (reading == ParseResult::kHelp) return static_cast<int>(ExitCode::kDone);
  for (const auto& [command, action] : commands) {
    if (reading == ParseResult::kError || !command.chosen()) continue;
    if (!has_work_to_finish(command.name())) keel::end_when_nobody_reads();
    if (!makes_a_run(command.name())) keel::begin_command();
    return run(action);
  }
  return static_cast<int>(ExitCode::kBadConfiguration);
}
