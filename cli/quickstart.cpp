#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/run_training.h"
#include "keel/core/files/file.h"
#include "keel/core/options/read_config.h"
#include "keel/record/run_folder.h"

namespace keel::cli {
namespace {

/// Suggests a run with the ratio clip (GRPO) and a comparison with it.
void print_next_steps(const Config& config, Console& console) {
  const std::string run = config.run.dir, default_run = quickstart_config().run.dir, clip_run = "runs/grpo";
  const auto print = [&](std::string command, const std::string& what = "") {
    if (!what.empty()) command.resize(std::max<size_t>(command.size() + 2, 64), ' ');
    console.line("  " + command + what);
  };
  const auto print_report = [&](const std::string& one, const std::string& other) {
    print("keel report " + one + " " + other + " -o compare.html", "side-by-side report");
  };
  console.heading("Try next");
  if (config.objective.method == "grpo" || full_path(run) == full_path(clip_run)) {
    if (RunFolder::contains_run(default_run) && full_path(run) != full_path(default_run))
      print_report(default_run, run);
  } else {
    if (!RunFolder::contains_run(clip_run))
      print("keel quickstart objective.method=grpo run.dir=" + clip_run, "the ratio clip on the same task");
    print_report(run, clip_run);
  }
  print("keel train examples/quickstart.yaml run.dir=runs/tight objective.delta=0.02");
  print("keel methods", "the table of methods");
  console.line("  (. scripts/env.sh puts keel on your PATH; the program is build/keel)");
}

/// Returns whether a run has these settings, apart from section run but with the same seed: a new run would only repeat
/// it.
bool has_settings(const std::filesystem::path& run, const Config& config) {
  if (!can_read_yaml()) return false;
  try {
    std::vector<std::string> notes;
    Config recorded = load_config(read_config(run / "config.yaml"), notes);
    if (recorded.run.seed != config.run.seed) return false;
    recorded.run = config.run;
    return to_json(recorded) == to_json(config);
  } catch (const Error&) {  // not a configuration of this version
    return false;
  }
}

/// Replaces a run with the same settings in the default folder. Other runs need --overwrite.
StartMode start_mode(const Config& config, bool overwrite) {
  const std::filesystem::path run = full_path(config.run.dir);
  if (overwrite) return StartMode::kReplace;
  if (!RunFolder::contains_run(run) || RunFolder::is_unsaved(run)) return StartMode::kNew;
  if (run == full_path(quickstart_config().run.dir) && has_settings(run, config)) return StartMode::kReplace;
  fail(ExitCode::kBadConfiguration, "run.dir: ", config.run.dir,
       " holds a run with other settings, which would be lost; choose another run.dir, or replace it with "
       "--overwrite");
}

}  // namespace

CommandHandler add_quickstart(CommandLine& line) {
  const auto overrides = std::make_shared<std::vector<std::string>>();
  const auto overwrite = std::make_shared<bool>(false), quiet = std::make_shared<bool>(false),
             watch = std::make_shared<bool>(false);
  Command command = line.add("quickstart", "Run the whole loop on a tiny built-in model and task in runs/quickstart");
  command.option("OVERRIDES", *overrides, "key=value settings, for example run.seed=1 or objective.method=grpo")
      .settings();
  command.flag("--overwrite", *overwrite, "Replace any run in run.dir");
  command.flag("--watch", *watch, kWatchHelp);
  command.flag("-q,--quiet", *quiet, kQuietHelp);
  return [overrides, overwrite, quiet, watch] {
    Console console(stdout, *quiet);
    console.begin_log();
    ConfigTree tree{.value = to_json(quickstart_config()), .lines = {}, .file = "quickstart"};
    apply_overrides(tree, *overrides);
    std::vector<std::string> notes;
    const Config config = load_config(tree, notes);
    const ExitCode code = run_training(config, notes, start_mode(config, *overwrite), console, *watch);
    if (code == ExitCode::kDone) print_next_steps(config, console);
    return code;
  };
}

}  // namespace keel::cli
