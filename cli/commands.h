#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

#include "keel/core/error.h"

namespace keel::cli {

/// What a command does once the command line is read; its result is the program's exit code.
using Action = std::function<ExitCode()>;

// One function per command, each in its own file: adds the command and returns what runs when it was chosen.
Action add_quickstart(CLI::App& app);
Action add_train(CLI::App& app);
Action add_eval(CLI::App& app);
Action add_report(CLI::App& app);
Action add_generate(CLI::App& app);
Action add_methods(CLI::App& app);
Action add_tasks(CLI::App& app);
Action add_verify(CLI::App& app);
Action add_reward(CLI::App& app);
Action add_inspect(CLI::App& app);
Action add_convert(CLI::App& app);
Action add_doctor(CLI::App& app);

/// "keel 0.1.0 (commit ...), LibTorch ..., device ..."
std::string version_line();

}  // namespace keel::cli
