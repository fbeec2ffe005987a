#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "keel/core/error.h"

namespace keel::cli {

/// What a command does once the command line is read; its result is the program's exit code.
using Action = std::function<ExitCode()>;

// One function per command, each in its own file: adds the command and returns what runs when it was chosen.
Action add_quickstart(CommandLine& line);
Action add_train(CommandLine& line);
Action add_sft(CommandLine& line);
Action add_eval(CommandLine& line);
Action add_study(CommandLine& line);
Action add_report(CommandLine& line);
Action add_watch(CommandLine& line);
Action add_export(CommandLine& line);
Action add_tokens(CommandLine& line);
Action add_advise(CommandLine& line);
Action add_generate(CommandLine& line);
Action add_chat(CommandLine& line);
Action add_methods(CommandLine& line);
Action add_tasks(CommandLine& line);
Action add_verify(CommandLine& line);
Action add_reward(CommandLine& line);
Action add_inspect(CommandLine& line);
Action add_convert(CommandLine& line);
Action add_import(CommandLine& line);
Action add_doctor(CommandLine& line);
Action add_completion(CommandLine& line);
Action add_help(CommandLine& line);

/// Names of ours that `help` knows.
std::vector<std::string> help_topics(const CommandLine& line);

/// "keel 0.1.0 (commit ...), LibTorch ..., device ..."
std::string version_line();

}  // namespace keel::cli
