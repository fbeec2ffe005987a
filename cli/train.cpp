#include <memory>

#include "cli/commands.h"
#include "cli/run_description.h"
#include "cli/run_training.h"
#include "keel/core/options/read_config.h"

namespace keel::cli {
namespace {

struct TrainArguments {
  std::string config;
  std::vector<std::string> overrides;
  bool resume = false, changed_data = false, damaged_rows = false, overwrite = false, explain = false, quiet = false;
};

}  // namespace

Action add_train(CommandLine& line) {
  const auto arguments = std::make_shared<TrainArguments>();
  Command command = line.add("train", "RL (after a supervised warm-up, if the configuration has one)");
  command
      .option("CONFIG", arguments->config,
              "Configuration file, YAML or JSON; or the first setting, where there is none: keel train model=FOLDER "
              "data.files='[rows.jsonl]'")
      .required()
      .files()
      .settings();
  command.option("OVERRIDES", arguments->overrides, "key=value settings that win over the file").settings();
  const Argument resume =
      command.flag("--resume", arguments->resume, "Continue the run in run.dir from its last checkpoint");
  command
      .flag(
          "--changed-data", arguments->changed_data,
          "With --resume: go on although rows of data.files or data.eval_files were changed, to mend them for instance")
      .needs(resume);
  command
      .flag("--damaged-rows", arguments->damaged_rows,
            "With --resume: go on although rows of the run's own metrics.jsonl or samples.jsonl are missing or "
            "damaged; the file is kept as it is beside a new one with the others")
      .needs(resume);
  command.flag("--overwrite", arguments->overwrite, "Replace the run in run.dir").excludes(resume);
  command.flag("--explain", arguments->explain, "Print every derived number and stop");
  command.flag("-q,--quiet", arguments->quiet, kQuietHelp);
  command.footer([] {
    Config config;
    OptionTable table;
    config.describe(table);
    return "Settings:\n" + table.help();
  });
  return [arguments] {
    Console console(stdout, arguments->quiet);
    const ConfigTree tree = read_settings(arguments->config, arguments->overrides);
    std::vector<std::string> notes;
    const Config config = load_config(tree, notes);
    for (const std::string& note : notes) console.line(note);
    if (arguments->explain) {
      console.result(explain(config));
      return ExitCode::kDone;
    }
    const StartMode mode = arguments->resume      ? StartMode::kResume
                           : arguments->overwrite ? StartMode::kReplace
                                                  : StartMode::kNew;
    return run_training(config, mode, console,
                        {.data = arguments->changed_data, .damaged_rows = arguments->damaged_rows});
  };
}

}  // namespace keel::cli
