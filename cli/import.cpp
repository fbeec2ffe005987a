#include "keel/train/config/recipes/import.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "keel/core/console.h"
#include "keel/core/files/file.h"
#include "keel/core/strings.h"
#include "keel/record/run_folder.h"
#include "keel/train/config/recipes/recipe.h"

namespace keel::cli {
namespace {

struct ImportArguments {
  std::string recipe, output;
  std::vector<std::string> settings;
  bool overwrite = false;
};

/// How many names there are of each section, by so many parts of their paths.
std::vector<std::pair<std::string, size_t>> sections_of(const std::vector<std::string>& names, size_t parts) {
  std::vector<std::pair<std::string, size_t>> sections;
  for (const std::string& name : names) {
    size_t dot = name.find('.');
    for (size_t part = 1; part < parts && dot != name.rfind('.'); ++part) dot = name.find('.', dot + 1);
    const std::string section = name.substr(0, dot);
    const auto known = std::find_if(sections.begin(), sections.end(), [&](auto& s) { return s.first == section; });
    if (known == sections.end())
      sections.emplace_back(section, 1);
    else
      ++known->second;
  }
  return sections;
}

enum class Shown { kAll, kFew };

/// "a, b", or of many "41 names (actor_rollout_ref.actor 20, critic.model 21)".
std::string shown_names(const std::vector<std::string>& names, Shown shown) {
  constexpr size_t kMostNames = 6, kMostSections = 5;
  if (shown == Shown::kAll || names.size() <= kMostNames) return joined(names);
  auto sections = sections_of(names, 2);
  if (sections.size() > kMostSections) sections = sections_of(names, 1);
  std::vector<std::string> counts;
  for (const auto& [section, count] : sections) counts.push_back(section + " " + std::to_string(count));
  const std::string where = sections.size() == 1 ? " of " + sections[0].first : " (" + joined(counts) + ")";
  return std::to_string(names.size()) + " names" + where;
}

/// One list of the report.
std::string list(const std::string& title, const std::vector<std::string>& entries) {
  std::string text = entries.empty() ? "" : title + "\n";
  for (const std::string& entry : entries) text += "  " + entry + "\n";
  return text;
}

std::vector<std::string> with_reasons(const std::vector<NamesWithReason>& entries, Shown shown) {
  std::vector<std::string> texts;
  for (const auto& [names, reason] : entries) texts.push_back(shown_names(names, shown) + ": " + reason);
  return texts;
}

std::string report(const Imported& imported, Shown shown) {
  return list("always so in Keel:", with_reasons(imported.by_nature, shown)) +
         list("left out:", with_reasons(imported.dropped, shown)) +
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
  const std::string told = report(imported, Shown::kFew), all = report(imported, Shown::kAll);
  const std::string name = arguments.recipe.empty() ? "settings" : arguments.recipe;
  const std::string text = "# From " + escape_controls(name) + ", a recipe of " + imported.program +
                           "'s, by keel import\n" + imported.yaml + (all.empty() ? "" : "\n") + as_comments(all);
  Console messages(stderr);
  if (!told.empty()) messages.line(told.substr(0, told.size() - 1));
  if (told != all) messages.line("(every name stands in the comments at the end of the configuration)");
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
