#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "keel/core/error.h"

namespace keel::cli {

/// Runs a command after the command line is parsed and returns the exit code of the program.
using CommandHandler = std::function<ExitCode()>;

// One function per command, each in its own file. It adds the command and returns its handler.
CommandHandler add_quickstart(CommandLine& line);
CommandHandler add_train(CommandLine& line);
CommandHandler add_sft(CommandLine& line);
CommandHandler add_eval(CommandLine& line);
CommandHandler add_study(CommandLine& line);
CommandHandler add_report(CommandLine& line);
CommandHandler add_watch(CommandLine& line);
CommandHandler add_export(CommandLine& line);
CommandHandler add_tokens(CommandLine& line);
CommandHandler add_advise(CommandLine& line);
CommandHandler add_generate(CommandLine& line);
CommandHandler add_chat(CommandLine& line);
CommandHandler add_methods(CommandLine& line);
CommandHandler add_tasks(CommandLine& line);
CommandHandler add_verify(CommandLine& line);
CommandHandler add_reward(CommandLine& line);
CommandHandler add_inspect(CommandLine& line);
CommandHandler add_convert(CommandLine& line);
CommandHandler add_import(CommandLine& line);
CommandHandler add_doctor(CommandLine& line);
CommandHandler add_completion(CommandLine& line);
CommandHandler add_help(CommandLine& line);

/// Keel's own names that `keel help` explains: commands, settings, methods, tasks and rewards.
std::vector<std::string> help_topics(const CommandLine& line);

/// "keel 0.1.0 (commit ...), LibTorch ..., device ..."
std::string version_line();

}  // namespace keel::cli
