#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "cli/commands.h"
#include "keel/core/interrupt.h"

namespace {

using keel::ExitCode;

/// Runs the chosen command; every way an error can leave it has its exit code.
int run(const keel::cli::Action& action) {
  try {
    return static_cast<int>(action());
  } catch (const keel::Error& error) {
    std::fprintf(stderr, "keel: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "keel: out of memory; lower train.tokens_per_batch or rollout.max_sequences\n");
    return static_cast<int>(ExitCode::kHealthGuard);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "keel: internal error: %s\n", error.what());
    return static_cast<int>(ExitCode::kInternal);
  }
}

}  // namespace

int main(int argc, char** argv) {
  keel::install_signal_handlers();
  CLI::App app("Keel fine-tunes language models with reinforcement learning under a divergence trust region.", "keel");
  app.set_version_flag("--version", keel::cli::version_line);
  app.require_subcommand(1);

  std::vector<std::pair<CLI::App*, keel::cli::Action>> commands;
  for (const auto add : {keel::cli::add_quickstart, keel::cli::add_train, keel::cli::add_report, keel::cli::add_methods,
                         keel::cli::add_doctor}) {
    const keel::cli::Action action = add(app);
    commands.emplace_back(app.get_subcommands({}).back(), action);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);  // prints help, version or the mistake
    return code == 0 ? 0 : static_cast<int>(ExitCode::kBadConfiguration);
  }
  for (const auto& [command, action] : commands)
    if (command->parsed()) return run(action);
  return static_cast<int>(ExitCode::kBadConfiguration);
}
