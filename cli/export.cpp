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

/// The run's own interpreter, which has the packages of record.wandb and record.mlflow.
std::string python_of(const std::filesystem::path& run) {
  const std::filesystem::path config = run / "config.yaml";
  const ConfigTree tree = path_exists(config) ? read_config(config.string()) : ConfigTree();
  const Json* python = find_non_null(tree, "reward.python");
  return python != nullptr && python->is_string() ? python->get<std::string>() : RewardOptions().python;
}

ExitCode export_run(const ExportArguments& arguments) {
  if ((arguments.csv + arguments.tensorboard + arguments.wandb + arguments.mlflow).empty())
    fail(ExitCode::kBadConfiguration,
         "export: nothing says where to; give --csv FILE, --tensorboard DIR, --wandb DIR or --mlflow DIR");
  const ExportedRun run = read_for_export(arguments.run, arguments.metrics);
  const bool to_output = arguments.csv == "-";
  Console messages(to_output ? stderr : stdout);  // what is said beside a table that is read by a program
  for (const std::string& change : find_changed_rows(arguments.run))
    messages.warning(change + "; the rows are exported as they are now");
  const auto tell = [&](const std::string& made, const std::string& next) {
    messages.line(made + (next.empty() ? "" : "\n  look at it with: " + next));
  };
  const bool overwrite = arguments.overwrite;
  if (to_output)
    std::fputs(csv_table(run).c_str(), stdout);  // as the file has it, with CR
  else if (!arguments.csv.empty())
    tell(export_csv(run, arguments.csv, overwrite).string(), "");
  if (!arguments.tensorboard.empty())
    tell(export_tensorboard(run, arguments.tensorboard, overwrite).string(),
         "tensorboard --logdir " + shell_word(arguments.tensorboard));
  if (!arguments.wandb.empty()) {
    const std::string made = export_to_tracker("wandb", python_of(arguments.run), run, arguments.wandb, overwrite);
    tell(made, "wandb sync " + shell_word(made));
  }
  if (!arguments.mlflow.empty())
    tell(export_to_tracker("mlflow", python_of(arguments.run), run, arguments.mlflow, overwrite),
         "MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri " + shell_word(arguments.mlflow));
  return ExitCode::kDone;
}

}  // namespace

CommandHandler add_export(CommandLine& line) {
  const auto arguments = std::make_shared<ExportArguments>();
  Command command = line.add("export", "A run's metrics for TensorBoard, Weights & Biases, MLflow or a table");
  command.option("RUN", arguments->run, "The folder of a run").required().folders();
  command
      .option("--csv", arguments->csv,
              "A file to write: one row per step, all metrics as columns; - is standard output")
      .files();
  command.option("--tensorboard", arguments->tensorboard, "A folder to write an event file to").folders();
  command
      .option("--wandb", arguments->wandb,
              "A folder to write an offline run to, for `wandb sync`; needs the package wandb")
      .folders();
  command.option("--mlflow", arguments->mlflow, "A file store of MLflow to add the run to; needs the package mlflow")
      .folders();
  command.option("--metric", arguments->metrics, "Only this metric; may be given several times").repeatable();
  command.flag("--overwrite", arguments->overwrite,
               "Replace what an earlier export of the run wrote there, or the file of --csv, whatever it is");
  return [arguments] { return export_run(*arguments); };
}

}  // namespace keel::cli
