#include "keel/train/config/recipes/import.h"

#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "keel/core/console.h"
#include "keel/core/files/file.h"
#include "keel/record/run_folder.h"
#include "keel/train/config/recipes/recipe.h"

namespace keel::cli {
namespace {

struct ImportArguments {
  std::string recipe, output;
  std::vector<std::string> settings;
  bool overwrite = false;
};

/// One list of the report.
std::string list(const std::string& title, const std::vector<std::string>& entries) {
  std::string text = entries.empty() ? "" : title + "\n";
  for (const std::string& entry : entries) text += "  " + entry + "\n";
  return text;
}

std::string report(const Imported& imported) {
  return list("always so in Keel:", imported.by_nature) + list("left out:", imported.dropped) +
         list("not as in " + imported.program + ":", imported.remarks);
}

std::string as_comments(const std::string& text) {
  std::string comments;
  for (size_t start = 0; start < text.size();) {
    const size_t end = text.find('\n', start);
    comments += "# " + text.substr(start, end - start) + "\n";
    start = end + 1;
  }
  return comments;
}

ExitCode import_file(ImportArguments arguments) {
  // Settings may stand alone, as behind verl's own command.
  if (arguments.recipe.find('=') != std::string::npos && !path_exists(arguments.recipe)) {
    arguments.settings.insert(arguments.settings.begin(), arguments.recipe);
    arguments.recipe.clear();
  }
  if (!arguments.output.empty() && !arguments.overwrite && path_exists(arguments.output))
    fail(ExitCode::kBadConfiguration, arguments.output, ": is there already; choose another name, or replace it with ",
         "--overwrite");
  if (!arguments.output.empty()) RunFolder::require_not_of_a_run(arguments.output);
  const Imported imported = import_recipe(read_recipe(arguments.recipe, arguments.settings));
  const std::string told = report(imported), name = arguments.recipe.empty() ? "settings" : arguments.recipe;
  const std::string text = "# From " + escape_controls(name) + ", a recipe of " + imported.program +
                           "'s, by keel import\n" + imported.yaml + (told.empty() ? "" : "\n") + as_comments(told);
  Console messages(stderr);
  if (!told.empty()) messages.line(told.substr(0, told.size() - 1));
  if (arguments.output.empty()) {
    Console().line(text.substr(0, text.size() - 1));
  } else {
    write_atomically(arguments.output, text, arguments.overwrite ? Existing::kReplaced : Existing::kStays);
    messages.line(arguments.output + ": start it with keel " + (imported.supervised ? "sft " : "train ") +
                  arguments.output + "; --explain says what it does");
  }
  return ExitCode::kDone;
}

}  // namespace

Action add_import(CommandLine& line) {
  const auto arguments = std::make_shared<ImportArguments>();
  Command command = line.add("import", "A configuration from a recipe of TRL's or verl's");
  command
      .option(
          "RECIPE", arguments->recipe,
          "A YAML or JSON file of TRL's or verl's settings, or a shell script that starts a training with them; - is "
          "standard input")
      .required()
      .files();
  command.option("SETTINGS", arguments->settings,
                 "Further settings that win over the recipe, in its names or Keel's: key=value; ~key leaves one out");
  command.option("-o,--output", arguments->output, "The configuration to write (default: standard output)").files();
  command.flag("--overwrite", arguments->overwrite, "Replace the file that is there");
  return [arguments] { return import_file(*arguments); };
}

}  // namespace keel::cli
