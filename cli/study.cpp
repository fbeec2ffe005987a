#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/run_training.h"
#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/interrupt.h"
#include "keel/core/options/read_config.h"
#include "keel/core/strings.h"
#include "keel/study/run_study.h"
#include "keel/study/study_tables.h"

namespace keel::cli {
namespace {

constexpr double kSignificance = 0.01;  // corrected p-values below this count as a difference

struct StudyArguments {
  std::string file, size, compare;
  std::vector<std::string> overrides;
  bool overwrite = false, explain = false, quiet = false;
};

std::string plan_text(const Study& study) {
  const std::vector<StudyRun> runs = plan_runs(study);
  size_t sft_runs = 0;
  std::vector<std::string> names;
  for (const StudyRun& run : runs) sft_runs += run.variant.empty() ? 1 : 0;
  for (const Variant& variant : study.variants) names.push_back(variant.name);
  const uint64_t first = study.options.first_seed, last = first + static_cast<uint64_t>(study.options.seeds) - 1;
  return study.name + ": " + joined(names) + ", seeds " + std::to_string(first) + " to " + std::to_string(last) +
         "; runs: " + std::to_string(runs.size() - sft_runs) + ", SFT runs: " + std::to_string(sft_runs) +
         ", at a time: " + std::to_string(study.options.jobs) + ", folder: " + study.options.dir;
}

/// The path of this program, which the runs are started with.
std::filesystem::path own_program() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    fail(ExitCode::kBadConfiguration, "/proc/self/exe: ", error.message(),
         "; a study finds its own program through /proc. Fix: mount it");
  return program;
}

/// Compares the runs with those of an earlier runs.csv.
ExitCode print_comparison(const Study& study, const std::vector<Outcome>& outcomes,
                          const std::vector<Outcome>& other_outcomes, const std::string& other_file, Console& console) {
  const StudyComparison comparison = compare(outcomes, other_outcomes, table_measures(study));
  console.heading("Compared with " + other_file);
  console.result(comparison.table);
  if (!comparison.only_in_one.empty())
    console.warning("not in both studies, so not compared: " + joined(comparison.only_in_one));
  if (comparison.same_seeds > 0)
    console.warning(
        std::to_string(comparison.same_seeds) +
        " runs have the variant and seed of a run in the other study, so they are not independent. Fix: use "
        "other seeds, as study.first_seed=100");
  const bool agrees = comparison.min_p > kSignificance;
  console.result((agrees ? "no difference found: the smallest p-value (Holm-corrected) is "
                         : "a difference found: the smallest p-value (Holm-corrected) is ") +
                 fixed(comparison.min_p, 4) + "; below " + fixed(kSignificance, 2) + " is a difference");
  return agrees ? ExitCode::kDone : ExitCode::kCheckFailed;
}

/// Reads a study with its overrides. base.KEY=VALUE overrides the base file, if the study has one.
Study read_with_overrides(const StudyArguments& arguments) {
  constexpr std::string_view kBase = "base.";
  ConfigTree tree = read_config(arguments.file);
  std::optional<ConfigTree> base = read_base_file(tree);
  std::vector<std::string> study_settings, base_settings;
  for (const std::string& setting : arguments.overrides) {
    if (base && setting.starts_with(kBase))
      base_settings.push_back(setting.substr(kBase.size()));
    else
      study_settings.push_back(setting);
  }
  apply_overrides(tree, study_settings);
  if (base) apply_overrides(*base, base_settings);
  return read_study(tree, base, arguments.size);
}

ExitCode study_command(const StudyArguments& arguments) {
  Console console(stdout, arguments.quiet);
  Study study = read_with_overrides(arguments);
  for (const std::string& note : check_variants(study)) console.line(note);
  std::vector<Outcome> other_outcomes;
  if (!arguments.compare.empty()) other_outcomes = read_outcomes_csv(arguments.compare);
  if (arguments.explain) {
    console.result(plan_text(study));
    for (const StudyRun& run : plan_runs(study)) console.result("  " + run.name);
    if (!study.options.comparisons.empty()) console.result("comparisons: " + joined(study.options.comparisons));
    return ExitCode::kDone;
  }
  console.line(plan_text(study));
  wait_for_saving();  // on a stop request, runs may take as long as saving needs
  const OldRuns old_runs = arguments.overwrite ? OldRuns::kReplaced : OldRuns::kKept;
  const std::filesystem::path program = own_program();
  const StudyFolder study_folder(study, old_runs);
  const StudyResult result = run_study(study, study_folder, program, old_runs, console);

  const std::filesystem::path& folder = study_folder.path();
  const std::vector<VariantSummary> variants = summarize(study, result.outcomes, result.failed);
  std::string table = markdown_table(study, variants);
  if (const std::string comparisons = comparison_table(study, result.outcomes); !comparisons.empty())
    table += "\n" + comparisons;
  write_atomically(folder / "table.md", table);
  write_atomically(folder / "table.csv", csv_table(study, variants));
  write_atomically(folder / "runs.csv", outcomes_csv(result.outcomes));
  write_atomically(folder / "study.html", study_page(study, variants, result.outcomes));
  write_atomically(folder / "curves.svg", study_curves(study, result.outcomes));
  for (const std::string& warning : result.unmeasured) console.warning(warning);
  console.heading(study.name);
  console.result(table);
  console.line("Written: table.md, table.csv, runs.csv (a row for each run), study.html and its curves.svg in " +
               study.options.dir);
  if (!arguments.compare.empty() && !result.outcomes.empty()) {
    const ExitCode code = print_comparison(study, result.outcomes, other_outcomes, arguments.compare, console);
    if (result.failures.empty()) return code;
  }
  if (result.failures.empty()) return ExitCode::kDone;
  console.warning(std::to_string(result.failures.size()) +
                  " runs failed and are not in the tables; run the same command "
                  "to retry them");
  return ExitCode::kCheckFailed;
}

}  // namespace

CommandHandler add_study(CommandLine& line) {
  const auto arguments = std::make_shared<StudyArguments>();
  Command command = line.add("study", "Run and compare variants of one configuration over several seeds");
  command.option("STUDY", arguments->file, "File with the sections study, base, variants and sizes").required().files();
  command.option("OVERRIDES", arguments->overrides,
                 "key=value settings that override the file: study.seeds=3, base.train.steps=50");
  command.option("--size", arguments->size, "One of the sizes in the file, whose settings override the base");
  command
      .option("--compare", arguments->compare,
              "runs.csv of an earlier study: test whether both agree (exit code 1 if not)")
      .files();
  command.flag("--overwrite", arguments->overwrite,
               "Replace runs in the folder whose settings differ from this study's");
  command.flag("--explain", arguments->explain, "Print the runs and exit");
  command.flag("-q,--quiet", arguments->quiet, "Print only warnings, errors and the tables");
  return [arguments] { return study_command(*arguments); };
}

}  // namespace keel::cli
