#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/options/read_config.h"
#include "keel/core/shell_words.h"
#include "keel/record/export_run.h"
#include "keel/record/tools/csv.h"
#include "keel/reward/reward_options.h"
#include "keel/train/checkpoint/checkpoint.h"

namespace keel::cli {
namespace {

struct ExportArguments {
  std::string run, csv, tensorboard, wandb, mlflow;
  std::vector<std::string> metrics;
  bool overwrite = false;
};

/// The interpreter of the run (reward.python), which has the packages wandb and mlflow if the run used them.
std::string interpreter_of(const std::filesystem::path& run) {
  const std::filesystem::path config = run / "config.yaml";
  const ConfigTree tree = path_exists(config) ? read_config(config.string()) : ConfigTree();
  const Json* python = find_non_null(tree, "reward.python");
  return python != nullptr && python->is_string() ? python->get<std::string>() : RewardOptions().python;
}

ExitCode export_run(const ExportArguments& arguments) {
  if ((arguments.csv + arguments.tensorboard + arguments.wandb + arguments.mlflow).empty())
    fail(ExitCode::kBadConfiguration,
         "export: no target; set --csv FILE, --tensorboard DIR, --wandb DIR or --mlflow DIR");
  const ExportedRun run = read_for_export(arguments.run, arguments.metrics);
  const bool csv_to_stdout = arguments.csv == "-";
  Console messages(csv_to_stdout ? stderr : stdout);
  for (const std::string& change : find_changed_rows(arguments.run))
    messages.warning(change + "; the rows are exported as they are now");
  const auto report = [&](const std::string& path, const std::string& command) {
    messages.line(path + (command.empty() ? "" : "\n  view it with: " + command));
  };
  const bool overwrite = arguments.overwrite;
  if (csv_to_stdout)
    std::fputs(csv_table(run).c_str(), stdout);  // with CRLF, as in a file
  else if (!arguments.csv.empty())
    report(export_csv(run, arguments.csv, overwrite).string(), "");
  if (!arguments.tensorboard.empty())
    report(export_tensorboard(run, arguments.tensorboard, overwrite).string(),
           "tensorboard --logdir " + shell_word(arguments.tensorboard));
  if (!arguments.wandb.empty()) {
    const std::string run_folder =
        export_to_tracker("wandb", interpreter_of(arguments.run), run, arguments.wandb, overwrite);
    report(run_folder, "wandb sync " + shell_word(run_folder));
  }
  if (!arguments.mlflow.empty())
    report(export_to_tracker("mlflow", interpreter_of(arguments.run), run, arguments.mlflow, overwrite),
           "MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri " + shell_word(arguments.mlflow));
  return ExitCode::kDone;
}

}  // namespace

CommandHandler add_export(CommandLine& line) {
  const auto arguments = std::make_shared<ExportArguments>();
  Command command = line.add("export", "Export a run's metrics to TensorBoard, Weights & Biases, MLflow or CSV");
  command.option("RUN", arguments->run, "Folder of a run").required().folders();
  command
      .option("--csv", arguments->csv,
              "Write a CSV file: one row per step, all metrics as columns; - is standard output")
      .files();
  command.option("--tensorboard", arguments->tensorboard, "Write an event file to this folder").folders();
  command
      .option("--wandb", arguments->wandb,
              "Write an offline run to this folder, for `wandb sync`; needs the package wandb")
      .folders();
  command.option("--mlflow", arguments->mlflow, "Add the run to this MLflow file store; needs the package mlflow")
      .folders();
  command.option("--metric", arguments->metrics, "Export only this metric; repeatable").repeatable();
  command.flag("--overwrite", arguments->overwrite, "Replace an earlier export of the run, or any file at --csv");
  return [arguments] { return export_run(*arguments); };
}

}  // namespace keel::cli
