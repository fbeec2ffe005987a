#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/run_training.h"

namespace keel::cli {

Action add_quickstart(CLI::App& app) {
  const auto overrides = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      app.add_subcommand("quickstart", "The whole loop on a tiny built-in model and task; replaces runs/quickstart");
  command->add_option("OVERRIDES", *overrides, "key=value settings, for example run.seed=1 or objective.method=grpo");
  return [overrides] {
    Console console;
    ConfigTree tree{.value = to_json(quickstart_config()), .lines = {}, .file = "quickstart"};
    for (const std::string& assignment : *overrides) apply_override(tree, assignment);
    std::vector<std::string> notes;
    const Config config = load_config(tree, notes);
    for (const std::string& note : notes) console.line(note);
    console.heading("Keel quickstart");
    console.line(explain(config));
    return run_training(config, StartMode::kReplace, console);
  };
}

}  // namespace keel::cli
