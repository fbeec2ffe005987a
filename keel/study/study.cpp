#include "keel/study/study.h"

#include <algorithm>
#include <array>
#include <set>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/tilde.h"
#include "keel/core/nearest.h"
#include "keel/core/options/read_config.h"
#include "keel/core/strings.h"
#include "keel/study/outcome.h"
#include "keel/train/config/config.h"

namespace keel {
namespace {

constexpr const char* kSftRun = "sft";
constexpr std::array kSections = {"study", "base", "sizes", "variants"};
// Sections that do not affect an SFT run: variants that differ only in these share it.
constexpr std::array kRlSections = {"objective", "rollout", "reward", "reference",  "critic",
                                    "train",     "eval",    "record", "checkpoint", "health"};

/// Copies the settings of `source` below `source_path` to `target` below `target_path`, except those that the command
/// line sets in `target` only.
void merge_settings(ConfigTree& target, const Json& settings, const ConfigTree& source, const std::string& source_path,
                    const std::string& target_path = "") {
  for (const auto& [key, value] : settings.items()) {
    const std::string to = target_path.empty() ? key : target_path + "." + key, from = source_path + "." + key;
    if (value.is_object()) {
      merge_settings(target, value, source, from, to);
      continue;
    }
    if (on_command_line(target, to) && !on_command_line(source, from)) continue;
    Json* node = &target.value;
    for (const std::string& part : split_path(to)) {
      if (!node->is_object()) *node = Json::object();
      node = &(*node)[part];
    }
    *node = value;
    if (const auto line = source.lines.find(from); line != source.lines.end()) target.lines[to] = line->second;
  }
}

const Json& section(const ConfigTree& tree, const std::string& name) {
  static const Json kEmpty = Json::object();
  const Json* const found = find_value(tree, name);
  if (found == nullptr || found->is_null()) return kEmpty;
  if (!found->is_object())
    fail(ExitCode::kBadConfiguration, location_of(tree, name), ": ", name, ": got ", found->dump(),
         ", expected names and their settings");
  return *found;
}

ConfigTree inline_base(const ConfigTree& tree) {
  if (find_value(tree, "base") == nullptr)
    fail(ExitCode::kBadConfiguration, tree.file,
         ": base is missing; set it to the configuration that the variants share, or to the name of its file");
  ConfigTree result;
  result.file = tree.file;
  merge_settings(result, section(tree, "base"), tree, "base");
  return result;
}

void check_names(const ConfigTree& tree) {
  const std::vector<std::string> known(kSections.begin(), kSections.end());
  for (const auto& [key, value] : tree.value.items()) {
    if (std::ranges::count(known, key)) continue;
    const auto suggestion = nearest_name(key, known);
    fail(ExitCode::kBadConfiguration, location_of(tree, key), ": ", key, ": unknown section of a study; ",
         suggestion ? "did you mean " + *suggestion + "?" : "they are " + joined(known) + ".",
         " Settings of runs belong to base");
  }
  constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-";
  for (const auto& [name, settings] : section(tree, "variants").items()) {
    if (name == kSftRun || name.starts_with(std::string(kSftRun) + "-"))
      fail(ExitCode::kBadConfiguration, location_of(tree, "variants." + name), ": variants.", name,
           ": this name is reserved for SFT runs; choose another");
    if (name.empty() || name.find_first_not_of(kNameCharacters) != std::string::npos || name[0] == '-')
      fail(ExitCode::kBadConfiguration, location_of(tree, "variants." + name), ": variants.", name,
           ": expected letters, digits, and _ + - after the first character, since it names a folder");
  }
}

/// Settings of runs that a study sets, each with the study setting that it comes from.
constexpr std::pair<const char*, const char*> kControlledSettings[] = {{"run.dir", "study.dir"},
                                                                       {"run.seed", "study.first_seed"}};

/// Drops run.dir and run.seed of a base file, with a note.
void drop_controlled_settings(ConfigTree& base, std::vector<std::string>& notes) {
  for (const auto& [setting, study_setting] : kControlledSettings) {
    if (find_value(base, setting) == nullptr || on_command_line(base, setting)) continue;
    notes.push_back(location_of(base, setting) + ": " + setting + " is ignored: a study sets it for every run (" +
                    study_setting + ")");
    erase_value(base, setting);
  }
}

void reject_controlled_settings(const Variant& variant) {
  for (const auto& [setting, study_setting] : kControlledSettings)
    if (find_value(variant.tree, setting) != nullptr)
      fail(ExitCode::kBadConfiguration, location_of(variant.tree, setting), ": ", setting,
           ": a study sets it for every run; remove it, and set ", study_setting);
}

void check_variant(const Variant& variant) try {
  std::vector<std::string> notes;  // each run prints them
  const Config config = load_config(variant.tree, notes);
  reject_controlled_settings(variant);
  if (!config.train.has_steps())
    fail(ExitCode::kBadConfiguration, "train.steps is 0, so there are no RL rewards to measure; set train.steps");
  if (config.health.on_alarm == "stop")
    fail(ExitCode::kBadConfiguration,
         "health.on_alarm is stop, but a study runs to the end and counts collapsed runs; set health.on_alarm=warn");
} catch (const Error& error) {
  fail(error.code(), "variant ", variant.name, ": ", error.what());
}

void check_measures(const ConfigTree& tree, const StudyOptions& options) {
  const std::vector<std::string> built_in = {measure::kFinal,     measure::kEarly,  measure::kBest,
                                             measure::kCollapsed, measure::kBefore, measure::kAfter};
  for (const std::string& name : options.measures)
    if (std::ranges::count(built_in, name) || std::ranges::count(options.measures, name) > 1 ||
        name.find_first_of(",|\"\r\n") != std::string::npos)
      fail(ExitCode::kBadConfiguration, location_of(tree, "study.measures"), ": study.measures: got ", name,
           ", expected names of metrics.jsonl, each once; ", joined(built_in), " are always in the tables");
}

/// Returns whether the runs begin with supervised updates on the task.
bool has_sft(const Json& config) {
  const auto sft = config.find("sft");
  if (sft == config.end() || !sft->is_object()) return false;
  return sft->value("steps", Json(0)) != 0 && sft->value("files", Json::array()).empty();
}

Json sft_config(Json config) {
  for (const char* section : kRlSections) config.erase(section);
  config["train"]["steps"] = 0;
  config["eval"]["prompts"] = 0;
  return config;
}

}  // namespace

void StudyOptions::describe(OptionTable& t) {
  t.add("dir", dir,
        "Folder of the study: its runs, tables and page. Empty: studies/NAME, or studies/NAME-SIZE with a size.");
  t.add("seeds", seeds, "Runs of each variant, one per seed; runs with the same seed start from the same network.",
        at_least(1).at_most(1000));
  t.add("first_seed", first_seed, "The first seed.", at_least(0).at_most(1000000000));
  t.add("jobs", jobs, "Number of concurrent runs.", at_least(1).at_most(1000));
  t.add("keep_checkpoints", keep_checkpoints,
        "Keeps the checkpoints of finished runs. Without them a study of large models needs less disk space.");
  t.add("last", last, "Number of steps at the end of a run that are averaged, at most a third of all.", at_least(1));
  t.add("baseline", baseline, "Variant that the others are compared with, seed by seed. Empty: the first.");
  t.add("measures", measures,
        "Metrics, such as trust_region/masked, whose mean over the last steps is added to the tables.");
  t.add("comparisons", comparisons,
        "Pairs of variants, each \"A vs B\", that are tested seed by seed; p-values are corrected for their number.");
}

std::pair<std::string, std::string> compared_variants(const std::string& comparison) {
  constexpr std::string_view kSeparator = " vs ";
  const size_t end = comparison.find(kSeparator);
  if (end == std::string::npos) return {comparison, ""};
  return {comparison.substr(0, end), comparison.substr(end + kSeparator.size())};
}

std::optional<ConfigTree> read_base_file(const ConfigTree& tree) {
  const Json* const base = find_value(tree, "base");
  if (base == nullptr || !base->is_string()) return std::nullopt;
  return read_config(std::filesystem::path(tree.file).parent_path() / base->get<std::string>());
}

Study read_study(const ConfigTree& tree, const std::optional<ConfigTree>& base_file, const std::string& size) {
  check_names(tree);
  Study study;
  study.name = std::filesystem::path(tree.file).stem().string();
  study.file = full_path(tree.file);

  ConfigTree study_tree;
  study_tree.file = tree.file;
  merge_settings(study_tree, section(tree, "study"), tree, "study", "study");
  OptionTable table;
  table.section("study", "", study.options);
  table.load(study_tree);
  check_measures(tree, study.options);
  check_tilde("study.dir", study.options.dir);
  if (study.options.dir.empty()) study.options.dir = "studies/" + study.name + (size.empty() ? "" : "-" + size);

  ConfigTree base = base_file ? *base_file : inline_base(tree);
  if (base_file) drop_controlled_settings(base, study.notes);
  const Json& sizes = section(tree, "sizes");
  std::vector<std::string> size_names;
  for (const auto& [name, settings] : sizes.items()) size_names.push_back(name);
  if (!size.empty() && !sizes.contains(size))
    fail(ExitCode::kBadConfiguration, "--size: got ", size, ", expected ",
         size_names.empty() ? "none, since " + tree.file + " has no sizes" : "one of " + joined(size_names));
  if (!size.empty()) merge_settings(base, section(tree, "sizes." + size), tree, "sizes." + size);

  for (const auto& [name, settings] : section(tree, "variants").items()) {
    Variant variant{name, base};
    merge_settings(variant.tree, section(tree, "variants." + name), tree, "variants." + name);
    study.variants.push_back(std::move(variant));
  }
  if (study.variants.empty())
    fail(ExitCode::kBadConfiguration, tree.file,
         ": variants is missing or empty; set at least one, such as variants: {dppo: {objective: {method: dppo_tv}}}");
  std::vector<std::string> variant_names;
  for (const Variant& variant : study.variants) variant_names.push_back(variant.name);
  if (study.options.baseline.empty()) study.options.baseline = variant_names[0];
  if (!std::ranges::count(variant_names, study.options.baseline))
    fail(ExitCode::kBadConfiguration, location_of(tree, "study.baseline"), ": study.baseline: got ",
         study.options.baseline, ", expected one of the variants ", joined(variant_names));
  const std::string comparisons_location = location_of(tree, "study.comparisons") + ": study.comparisons";
  if (!study.options.comparisons.empty() && study.options.seeds < 2)
    study.notes.push_back(comparisons_location + ": not tested, because a test needs at least 2 seeds (study.seeds)");
  std::set<std::pair<std::string, std::string>> compared;
  for (const std::string& comparison : study.options.comparisons) {
    const auto [variant, other] = compared_variants(comparison);
    if (!std::ranges::count(variant_names, variant) || !std::ranges::count(variant_names, other) || variant == other)
      fail(ExitCode::kBadConfiguration, comparisons_location, ": got \"", comparison,
           "\", expected \"A vs B\" with two of the variants ", joined(variant_names));
    if (!compared.insert(std::minmax(variant, other)).second)
      fail(ExitCode::kBadConfiguration, comparisons_location, ": compares ", variant, " and ", other,
           " twice; remove one of the two");
  }
  return study;
}

std::vector<std::string> check_variants(const Study& study) {
  for (const Variant& variant : study.variants) check_variant(variant);
  return study.notes;
}

std::vector<StudyRun> plan_runs(const Study& study) {
  const std::filesystem::path folder = full_path(study.options.dir);
  std::vector<StudyRun> runs;
  for (int64_t i = 0; i < study.options.seeds; ++i) {
    const uint64_t seed = study.options.first_seed + static_cast<uint64_t>(i);
    const auto add = [&](std::string name, const std::string& variant, Json config, std::string sft_run) {
      config["run"]["dir"] = (folder / "runs" / name).string();
      config["run"]["seed"] = seed;
      runs.push_back({std::move(name), variant, seed, std::move(config), std::move(sft_run)});
    };
    std::vector<std::pair<Json, std::string>> sft_runs;  // of this seed: configuration and run name
    for (const Variant& variant : study.variants) {
      const std::string suffix = "-" + std::to_string(seed);
      Json config = variant.tree.value;
      std::string sft_run;
      if (has_sft(config)) {
        const Json sft_settings = sft_config(config);
        const auto found = std::ranges::find(sft_runs, sft_settings, &std::pair<Json, std::string>::first);
        if (found == sft_runs.end()) {
          sft_run = (sft_runs.empty() ? kSftRun : std::string(kSftRun) + "-" + variant.name) + suffix;
          sft_runs.emplace_back(sft_settings, sft_run);
          add(sft_run, "", sft_settings, "");
        } else {
          sft_run = found->second;
        }
        config.erase("sft");
        config["model"] = Json{{"path", (folder / "runs" / sft_run).string()}};
      }
      add(variant.name + suffix, variant.name, std::move(config), sft_run);
    }
  }
  return runs;
}

}  // namespace keel
