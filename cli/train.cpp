#include <functional>
#include <memory>
#include <sstream>
#include <utility>

#include "cli/commands.h"
#include "cli/description_parts.h"
#include "cli/run_description.h"
#include "cli/run_training.h"
#include "keel/core/files/file.h"
#include "keel/core/options/read_config.h"
#include "keel/core/shell_words.h"
#include "keel/core/str_cat.h"
#include "keel/core/strings.h"
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

/// Rejects the config.yaml of a copied run, whose run.dir still is the folder of the original.
void require_own_run_dir(const std::string& file, const ConfigTree& tree, const Config& config) {
  const auto folder = find_moved_run(file, tree, config);
  if (folder && path_exists(config.run.dir))
    fail(ExitCode::kBadConfiguration, file, ": its run.dir is ", config.run.dir,
         ", but it is in the folder of the run ", folder->string(), ". Fix: set run.dir=", shell_word(config.run.dir),
         " or run.dir=", shell_word(folder->string()));
}

/// Says where the settings are explained, in lines of at most 80 columns.
std::string describe_topics() {
  constexpr size_t kColumns = 80;
  Config config;
  OptionTable table;
  config.describe(table);
  std::vector<std::string> names;
  for (const Section& section : table.sections()) names.push_back(section.path);
  std::istringstream words("keel help TOPIC explains a setting (train.steps), all settings (settings) or a section: " +
                           joined(names));
  std::string text, line;
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > kColumns) text += std::exchange(line, "") + "\n";
    line += (line.empty() ? "" : " ") + word;
  }
  return text + line;
}

/// Adds a training command; `convert` turns the given settings into a full configuration.
CommandHandler add_training(CommandLine& line, const char* name, const char* help, const char* example,
                            const std::function<ConfigTree(ConfigTree, std::vector<std::string>& notes)>& convert) {
  const auto arguments = std::make_shared<TrainArguments>();
  Command command = line.add(name, help);
  command.option("CONFIG", arguments->config, "YAML or JSON file, run folder, or first key=value")
      .required()
      .files()
      .settings();
  command.option("OVERRIDES", arguments->overrides, "key=value settings that override the file").settings();
  const Argument resume = command.flag("--resume", arguments->resume, "Continue run.dir from its last checkpoint");
  command.flag("--changed-data", arguments->changed_data, "With --resume: accept changed rows of data files")
      .needs(resume);
  command.flag("--damaged-rows", arguments->damaged_rows, "With --resume: accept damaged metrics and samples")
      .needs(resume);
  command.flag("--overwrite", arguments->overwrite, "Replace the run in run.dir").excludes(resume);
  command.flag("--explain", arguments->explain, "Print all settings and derived numbers, then exit");
  command.flag("--watch", arguments->watch, kWatchHelp);
  command.flag("-q,--quiet", arguments->quiet, kQuietHelp);
  command.footer([example] { return str_cat("Example: ", example, "\n", describe_topics()); });
  return [arguments, convert] {
    Console console(stdout, arguments->quiet);
    console.begin_log();
    arguments->config = config_file(arguments->config);
    std::vector<std::string> notes;
    const ConfigTree tree = convert(read_settings(arguments->config, arguments->overrides), notes);
    const Config config = load_config(tree, notes);
    if (arguments->explain) {
      for (const std::string& note : notes) console.line(note);
      const Explanation explanation = explain(resolve_run_paths(config, console), console);
      console.result(wrap_entries(explanation.text, console));
      for (const Resource& resource : explanation.resources) require_resource(resource, console);
      return ExitCode::kDone;
    }
    const StartMode mode = arguments->resume      ? StartMode::kResume
                           : arguments->overwrite ? StartMode::kReplace
                                                  : StartMode::kNew;
    if (mode != StartMode::kNew) require_own_run_dir(arguments->config, tree, config);
    return run_training(config, notes, mode, console, arguments->watch,
                        {.data = arguments->changed_data, .damaged_rows = arguments->damaged_rows});
  };
}

}  // namespace

CommandHandler add_train(CommandLine& line) {
  return add_training(line, "train", "Train with RL, after supervised updates if sft is configured",
                      "keel train model=DIR data.files=rows.jsonl rollout.max_new_tokens=512",
                      [](ConfigTree tree, std::vector<std::string>&) { return tree; });
}

CommandHandler add_sft(CommandLine& line) {
  return add_training(line, "sft", "Supervised fine-tuning on your rows: messages, or prompt and completion",
                      "keel sft model=DIR data.files=rows.jsonl lora.rank=8", to_sft_config);
}

}  // namespace keel::cli
