#include <memory>

#include "cli/commands.h"
#include "cli/run_training.h"
#include "keel/core/files/file.h"
#include "keel/core/options/read_config.h"

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

/// Whether a run is of this command's kind: its network, made from nothing, on its task.
bool is_quickstart(const std::filesystem::path& run) {
  if (!can_read_yaml()) return false;
  const Json recorded = read_config(run / "config.yaml").value, own = to_json(quickstart_config());
  for (const char* section : {"model", "lora", "data", "task"})
    if (recorded.value(section, Json()) != own[section]) return false;
  return true;
}

/// A run of its own kind in its own place is replaced unasked; any other is somebody's work.
StartMode start_mode(const Config& config, bool overwrite) {
  const std::filesystem::path run = full_path(config.run.dir);
  if (overwrite) return StartMode::kReplace;
  if (!path_exists(run / "config.yaml")) return StartMode::kNew;
  if (run == full_path(quickstart_config().run.dir) && is_quickstart(run)) return StartMode::kReplace;
  fail(ExitCode::kBadConfiguration, "run.dir: ", config.run.dir,
       " holds another run, which would be lost; choose another run.dir, or replace it with --overwrite");
}

}  // namespace

Action add_quickstart(CommandLine& line) {
  const auto overrides = std::make_shared<std::vector<std::string>>();
  const auto overwrite = std::make_shared<bool>(false);
  Command command = line.add(
      "quickstart", "The whole loop on a tiny built-in model and task; replaces its last run in runs/quickstart");
  command.option("OVERRIDES", *overrides, "key=value settings, for example run.seed=1 or objective.method=grpo");
  command.flag("--overwrite", *overwrite, "Replace whatever run is in run.dir");
  return [overrides, overwrite] {
    Console console;
    ConfigTree tree{.value = to_json(quickstart_config()), .lines = {}, .file = "quickstart"};
    apply_overrides(tree, *overrides);
    std::vector<std::string> notes;
    const Config config = load_config(tree, notes);
    for (const std::string& note : notes) console.line(note);
    console.heading("Keel quickstart");
    const ExitCode code = run_training(config, start_mode(config, *overwrite), console);
    if (code == ExitCode::kDone) print_next_steps(config, console);
    return code;
  };
}

}  // namespace keel::cli
