#include "keel/compat/import.h"

#include <memory>

#include "cli/commands.h"
#include "keel/compat/recipe.h"
#include "keel/core/console.h"
#include "keel/core/files/file.h"
#include "keel/core/strings.h"
#include "keel/record/run_folder.h"

namespace keel::cli {
namespace {

struct ImportArguments {
  std::string output;
  std::vector<std::string> ignored;
  bool overwrite = false;
};

std::string as_comments(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "# " + line + "\n";
  return text;
}

/// Lists the remarks on differences between Keel and the other trainer, and the keys that were left out.
std::vector<std::string> report_lines(const compat::Imported& imported, bool all_names) {
  std::vector<std::string> lines;
  for (const std::string& remark : imported.remarks) lines.push_back("remark: " + remark);
  const size_t count = imported.ignored_keys.size();
  if (count > 0)
    lines.push_back(
        "left out, since they do not change the training: " +
        (all_names ? joined(imported.ignored_keys) : std::to_string(count) + (count == 1 ? " key" : " keys")));
  return lines;
}

ExitCode run_import(const ImportArguments& arguments, std::vector<std::string> settings) {
  std::string recipe;
  const auto is_file = [](const std::string& text) {
    return text == "-" || path_exists(text) || (text.find_first_of("-~+") != 0 && text.find('=') == std::string::npos);
  };
  if (!settings.empty() && is_file(settings[0])) {
    recipe = settings[0];
    settings.erase(settings.begin());
  }
  if (recipe.empty() && settings.empty())
    fail(ExitCode::kBadConfiguration,
         "import: no recipe. Fix: name a YAML or JSON file of TRL or verl, or pass "
         "settings: keel import algorithm.adv_estimator=grpo ..., or keel import --num_generations 8 ...");
  if (!arguments.output.empty()) RunFolder::require_outside_run(arguments.output);
  if (!arguments.output.empty() && !arguments.overwrite && path_exists(arguments.output))
    fail(ExitCode::kBadConfiguration, arguments.output,
         ": already exists. Fix: choose another name, or replace it with --overwrite");
  const compat::Imported imported = compat::import_recipe(compat::read_recipe(recipe, settings), arguments.ignored);
  const std::string name = recipe.empty() ? "command-line settings" : escape_controls(recipe);
  std::string text = "# From " + name + " (" + imported.program + ") by keel import\n" + imported.yaml +
                     as_comments(report_lines(imported, /*all_names=*/true));
  Console messages(stderr);
  for (const std::string& line : report_lines(imported, /*all_names=*/false)) messages.line(line);
  if (arguments.output.empty()) {
    text.pop_back();
    Console().line(text);
  } else {
    write_atomically(arguments.output, text, arguments.overwrite ? Existing::kReplaced : Existing::kStays);
    messages.line(arguments.output + ": start it with keel " + (imported.supervised ? "sft " : "train ") +
                  arguments.output + "; --explain describes it");
  }
  return ExitCode::kDone;
}

}  // namespace

CommandHandler add_import(CommandLine& line) {
  const auto arguments = std::make_shared<ImportArguments>();
  Command command = line.add("import", "Convert a TRL or verl recipe: keel import [RECIPE] [SETTINGS...]");
  command.option("-o,--output", arguments->output, "The configuration to write (default: standard output)").files();
  command.option("--ignore", arguments->ignored, "Leave out this key of the recipe; repeatable").repeatable();
  command.flag("--overwrite", arguments->overwrite, "Replace an existing output file");
  command.take_rest();
  command.footer([] {
    return std::string(
        "RECIPE is a YAML or JSON file (verl: of `--cfg job --resolve`, or .hydra/config.yaml of a run); - is standard "
        "input.\nSETTINGS override it: key=value and ~key as in verl, --key value as in TRL, or Keel's "
        "key=value.");
  });
  return [arguments, command] { return run_import(*arguments, command.rest()); };
}

}  // namespace keel::cli
