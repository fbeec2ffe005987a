#include <functional>
#include <memory>

#include "cli/commands.h"
#include "cli/description_parts.h"
#include "cli/run_description.h"
#include "cli/run_training.h"
#include "keel/core/files/file.h"
#include "keel/core/options/read_config.h"
#include "keel/core/shell_words.h"
#include "keel/train/config/sft_settings.h"
#include "keel/train/open_run.h"

namespace keel::cli {
namespace {

struct TrainArguments {
  std::string config;
  std::vector<std::string> overrides;
  bool resume = false, changed_data = false, damaged_rows = false, overwrite = false, explain = false, quiet = false,
       watch = false;
};

/// A copy's configuration names the folder of the run that it was copied from, which nobody who names the copy means to
/// go on with, or to replace.
void require_own_folder(const std::string& file, const ConfigTree& tree, const Config& config) {
  const auto folder = run_around(file, tree, config);
  if (folder && path_exists(config.run.dir))
    fail(ExitCode::kBadConfiguration, file, ": its run.dir is ", config.run.dir, ", and the run that it lies in is ",
         folder->string(), "; say which of the two you mean: run.dir=", shell_word(config.run.dir),
         " or run.dir=", shell_word(folder->string()));
}

/// The command and its arguments; `tree_of` makes of the settings what is trained.
CommandHandler add_training(CommandLine& line, const char* name, const char* help, const char* example,
                            const std::function<ConfigTree(ConfigTree, std::vector<std::string>& notes)>& tree_of) {
  const auto arguments = std::make_shared<TrainArguments>();
  Command command = line.add(name, help);
  command.option("CONFIG", arguments->config, example).required().files().settings();
  command.option("OVERRIDES", arguments->overrides, "key=value settings that win over the file").settings();
  const Argument resume =
      command.flag("--resume", arguments->resume, "Continue the run in run.dir from its last checkpoint");
  command
      .flag("--changed-data", arguments->changed_data,
            "With --resume: go on although rows of the files of section data or sft were changed, to mend them for "
            "instance")
      .needs(resume);
  command
      .flag("--damaged-rows", arguments->damaged_rows,
            "With --resume: go on although rows of the run's own metrics.jsonl or samples.jsonl are missing or "
            "damaged; the file is kept as it is beside a new one with the others")
      .needs(resume);
  command.flag("--overwrite", arguments->overwrite, "Replace the run in run.dir").excludes(resume);
  command.flag("--explain", arguments->explain, "Print every derived number and stop");
  command.flag("--watch", arguments->watch, kWatchHelp);
  command.flag("-q,--quiet", arguments->quiet, kQuietHelp);
  command.footer([] {
    Config config;
    OptionTable table;
    config.describe(table);
    return "Settings:\n" + table.help();
  });
  return [arguments, tree_of] {
    Console console(stdout, arguments->quiet);
    std::vector<std::string> notes;
    const ConfigTree tree = tree_of(read_settings(arguments->config, arguments->overrides), notes);
    const Config config = load_config(tree, notes);
    for (const std::string& note : notes) console.line(note);
    if (arguments->explain) {
      console.result(fitted(explain(resolve_run_paths(config, console)), console));
      return ExitCode::kDone;
    }
    const StartMode mode = arguments->resume      ? StartMode::kResume
                           : arguments->overwrite ? StartMode::kReplace
                                                  : StartMode::kNew;
    if (mode != StartMode::kNew) require_own_folder(arguments->config, tree, config);
    return run_training(config, mode, console, arguments->watch,
                        {.data = arguments->changed_data, .damaged_rows = arguments->damaged_rows});
  };
}

}  // namespace

CommandHandler add_train(CommandLine& line) {
  return add_training(line, "train", "RL (after supervised updates, if the configuration has some)",
                      "Configuration file, YAML or JSON; or the first setting, where there is none: keel train "
                      "model=FOLDER data.files='[rows.jsonl]'",
                      [](ConfigTree tree, std::vector<std::string>&) { return tree; });
}

CommandHandler add_sft(CommandLine& line) {
  return add_training(line, "sft", "Supervised fine-tuning on rows of one's own: messages, or prompt and completion",
                      "Configuration file, YAML or JSON; or the first setting, where there is none: keel sft "
                      "model=FOLDER data.files='[rows.jsonl]' lora.rank=8",
                      to_sft_config);
}

}  // namespace keel::cli
