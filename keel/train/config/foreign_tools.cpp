#include "keel/train/config/foreign_tools.h"

#include "keel/core/error.h"

namespace keel {
namespace {

/// A tool that gets nothing while the run goes on must not seem to.
Json written_for_tensorboard(const Json& value, const ConfigTree&, const OptionTable&) {
  Json written = kSetsNothing;
  for (const std::string& tool : tools_of(value)) {
    if (tool != kTensorBoard)
      fail(ExitCode::kBadConfiguration, "of other tools a run is written for ", kTensorBoard, " alone; ",
           tool == kAllTools ? "write that in place of " : "remove ", tool, ": ", way_to_tool(tool));
    written = true;
  }
  return written;
}

}  // namespace

Names tools_of(const Json& value) {
  Names tools;
  for (const Json& word : value.is_array() ? value : Json::array({value}))
    if (!word.is_null() && !contains({"none", "console"}, word_of(word))) tools.push_back(word_of(word));
  return tools;
}

std::string way_to_tool(const std::string& tool) {
  if (tool == kAllTools)
    return "of the tools that are installed it is tensorboard here; for the others every step is in metrics.jsonl of "
           "run.dir, and afterwards `keel export RUN --wandb DIR`, `--mlflow DIR` or `--csv FILE` makes a run or a "
           "table of it";
  const bool has_own = contains({"wandb", "mlflow"}, tool);
  return "every step is in metrics.jsonl of run.dir, and afterwards `keel export RUN " +
         (has_own ? "--" + tool + " DIR` makes a run of it" : std::string("--csv FILE` makes a table of it"));
}

void add_tool_aliases(OptionTable& table) {
  const std::string alone = "tensorboard is true; keel export is for the other tools";
  table.alias("report_to", "record.tensorboard", "TRL", written_for_tensorboard, alone);
  table.alias("trainer.logger", "record.tensorboard", "verl", written_for_tensorboard, alone);
}

}  // namespace keel
