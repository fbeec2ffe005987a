#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/run_training.h"

namespace keel::cli {
namespace {

void print_next_steps(const Config& config, Console& console) {
  console.heading("Try next");
  console.line("  keel quickstart objective.method=grpo run.dir=runs/grpo           the ratio clip on the same task");
  console.line("  keel report " + config.run.dir + " runs/grpo -o compare.html        the two side by side");
  console.line("  keel train examples/quickstart.yaml run.dir=runs/tight objective.delta=0.02");
  console.line("  keel methods                                                      the table of methods");
  console.line("  (. scripts/env.sh puts keel on your PATH; the program is build/keel)");
}

}  // namespace

Action add_quickstart(CLI::App& app) {
  const auto overrides = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      app.add_subcommand("quickstart", "The whole loop on a tiny built-in model and task; replaces runs/quickstart");
  command->add_option("OVERRIDES", *overrides, "key=value settings, for example run.seed=1 or objective.method=grpo");
  return [overrides] {
    Console console;
    ConfigTree tree{.value = to_json(quickstart_config()), .lines = {}, .file = "quickstart"};
    apply_overrides(tree, *overrides);
    std::vector<std::string> notes;
    const Config config = load_config(tree, notes);
    for (const std::string& note : notes) console.line(note);
    console.heading("Keel quickstart");
    const ExitCode code = run_training(config, StartMode::kReplace, console);
    if (code == ExitCode::kDone) print_next_steps(config, console);
    return code;
  };
}

}  // namespace keel::cli
