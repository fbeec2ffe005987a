#include "keel/study/study.h"

#include <algorithm>
#include <array>

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

constexpr const char* kWarmUp = "warm-up";
constexpr std::array kSections = {"study", "base", "sizes", "variants"};
// What a warm-up sees nothing of: variants that differ in these sections alone share it.
constexpr std::array kAfterTheWarmUp = {"objective", "rollout", "reward", "reference",  "critic",
                                        "train",     "eval",    "record", "checkpoint", "health"};

/// Puts the settings below `path` of one tree over those of another, but not over what was typed behind the file.
void put_over(ConfigTree& to, const Json& settings, const ConfigTree& from, const std::string& path,
              const std::string& below = "") {
  for (const auto& [key, value] : settings.items()) {
    const std::string setting = below.empty() ? key : below + "." + key, written = path + "." + key;
    if (value.is_object()) {
      put_over(to, value, from, written, setting);
      continue;
    }
    if (on_command_line(to, setting) && !on_command_line(from, written)) continue;
    Json* place = &to.value;
    for (const std::string& part : split_path(setting)) {
      if (!place->is_object()) *place = Json::object();
      place = &(*place)[part];
    }
    *place = value;
    if (const auto line = from.lines.find(written); line != from.lines.end()) to.lines[setting] = line->second;
  }
}

const Json& section(const ConfigTree& tree, const std::string& name) {
  static const Json kNone = Json::object();
  const Json* const found = find_value(tree, name);
  if (found == nullptr || found->is_null()) return kNone;
  if (!found->is_object())
    fail(ExitCode::kBadConfiguration, place_of(tree, name), ": ", name, ": got ", found->dump(),
         ", expected names and their settings");
  return *found;
}

ConfigTree base_of(const ConfigTree& tree) {
  if (find_value(tree, "base") == nullptr)
    fail(ExitCode::kBadConfiguration, tree.file,
         ": base is missing, the configuration that the variants share; write "
         "it there, or the name of its file");
  ConfigTree result;
  result.file = tree.file;
  put_over(result, section(tree, "base"), tree, "base");
  return result;
}

void check_names(const ConfigTree& tree) {
  const std::vector<std::string> known(kSections.begin(), kSections.end());
  for (const auto& [key, value] : tree.value.items()) {
    if (std::ranges::count(known, key)) continue;
    const auto near = nearest_name(key, known);
    fail(ExitCode::kBadConfiguration, place_of(tree, key), ": ", key, ": unknown section of a study; ",
         near ? "did you mean " + *near + "?" : "they are " + joined(known) + ".",
         " Settings of the runs stand below base");
  }
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-";
  for (const auto& [name, settings] : section(tree, "variants").items()) {
    if (name == kWarmUp || name.starts_with(std::string(kWarmUp) + "-"))
      fail(ExitCode::kBadConfiguration, place_of(tree, "variants." + name), ": variants.", name,
           ": runs of this name make the networks that variants start from; choose another");
    if (name.empty() || name.find_first_not_of(kLetters) != std::string::npos || name[0] == '-')
      fail(ExitCode::kBadConfiguration, place_of(tree, "variants." + name), ": variants.", name,
           ": the name becomes that of a folder; expected letters, digits, and _ + - behind the first");
  }
}

/// What a study decides itself, and by which setting of its own.
constexpr std::pair<const char*, const char*> kOfTheStudy[] = {{"run.dir", "study.dir"},
                                                               {"run.seed", "study.first_seed"}};

/// A file that stands for itself names its run's folder.
void leave_out_own_settings(ConfigTree& base, std::vector<std::string>& notes) {
  for (const auto& [setting, instead] : kOfTheStudy) {
    if (find_value(base, setting) == nullptr || on_command_line(base, setting)) continue;
    notes.push_back(place_of(base, setting) + ": " + setting + " is not taken: a study gives every run its own (" +
                    instead + ")");
    erase_value(base, setting);
  }
}

void refuse_own_settings(const Variant& variant) {
  for (const auto& [setting, instead] : kOfTheStudy)
    if (find_value(variant.tree, setting) != nullptr)
      fail(ExitCode::kBadConfiguration, place_of(variant.tree, setting), ": ", setting,
           ": a study gives every run its own; remove it, and set ", instead);
}

void check_variant(const Variant& variant) try {
  std::vector<std::string> notes;  // which each run prints
  const Config config = load_config(variant.tree, notes);
  refuse_own_settings(variant);
  if (!config.train.has_steps())
    fail(ExitCode::kBadConfiguration, "train.steps is 0, so that there is no RL whose rewards a study could measure");
  if (config.health.on_alarm == "stop")
    fail(ExitCode::kBadConfiguration,
         "health.on_alarm is stop, but a study measures its runs to their end, and counts ",
         "those that collapsed; set health.on_alarm: warn");
} catch (const Error& error) {
  fail(error.code(), "variant ", variant.name, ": ", error.what());
}

void check_measures(const ConfigTree& tree, const StudyOptions& options) {
  const std::vector<std::string> own = {measure::kFinal,     measure::kEarly,  measure::kBest,
                                        measure::kCollapsed, measure::kBefore, measure::kAfter};
  for (const std::string& name : options.measures)
    if (std::ranges::count(own, name) || std::ranges::count(options.measures, name) > 1 ||
        name.find_first_of(",|\"\r\n") != std::string::npos)
      fail(ExitCode::kBadConfiguration, place_of(tree, "study.measures"), ": study.measures: got ", name,
           ", expected names of metrics.jsonl, each once; ", joined(own), " stand in the tables without it");
}

/// Whether a study's runs begin with supervised updates on the task, which are the same for all variants.
bool warms_up(const Json& config) {
  const auto sft = config.find("sft");
  if (sft == config.end() || !sft->is_object()) return false;
  return sft->value("steps", Json(0)) != 0 && sft->value("files", Json::array()).empty();
}

Json warm_up_of(Json config) {
  for (const char* section : kAfterTheWarmUp) config.erase(section);
  config["train"]["steps"] = 0;
  config["eval"]["prompts"] = 0;
  return config;
}

}  // namespace

void StudyOptions::describe(OptionTable& t) {
  t.add("dir", dir,
        "Folder of the study: its runs, tables and page. Empty: studies/ and the name of the file, with that of the "
        "size.");
  t.add("seeds", seeds, "Runs of each variant, one from each seed; those of one seed start from the same network.",
        at_least(1).at_most(1000));
  t.add("first_seed", first_seed, "The first of them.", at_least(0).at_most(1000000000));
  t.add("jobs", jobs, "Runs at a time.", at_least(1).at_most(1000));
  t.add(
      "keep_checkpoints", keep_checkpoints,
      "Whether the networks of runs that are done stay on the disk. Without them a study of large models has room, and "
      "its tables stay.");
  t.add("last", last, "Steps that count as the end of a run, at most a third of them.", at_least(1));
  t.add("baseline", baseline, "The variant that others are compared with, seed by seed. Empty: the first.");
  t.add("measures", measures,
        "Metrics whose mean over the last steps stands in the tables too, as trust_region/masked.");
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

  ConfigTree own;
  own.file = tree.file;
  put_over(own, section(tree, "study"), tree, "study", "study");
  OptionTable table;
  table.section("study", "", study.options);
  table.load(own);
  check_measures(tree, study.options);
  require_no_tilde("study.dir", study.options.dir);
  if (study.options.dir.empty()) study.options.dir = "studies/" + study.name + (size.empty() ? "" : "-" + size);

  ConfigTree base = base_file ? *base_file : base_of(tree);
  if (base_file) leave_out_own_settings(base, study.notes);
  const Json& sizes = section(tree, "sizes");
  std::vector<std::string> names;
  for (const auto& [name, settings] : sizes.items()) names.push_back(name);
  if (!size.empty() && !sizes.contains(size))
    fail(ExitCode::kBadConfiguration, "--size: got ", size, ", expected ",
         names.empty() ? "none, since " + tree.file + " has no sizes" : "one of " + joined(names));
  if (!size.empty()) put_over(base, section(tree, "sizes." + size), tree, "sizes." + size);

  for (const auto& [name, settings] : section(tree, "variants").items()) {
    Variant variant{name, base};
    put_over(variant.tree, section(tree, "variants." + name), tree, "variants." + name);
    study.variants.push_back(std::move(variant));
  }
  if (study.variants.empty())
    fail(ExitCode::kBadConfiguration, tree.file,
         ": variants is missing or empty; write at least one, a name and its settings: variants: {dppo: "
         "{objective: {method: dppo_tv}}}");
  std::vector<std::string> variants;
  for (const Variant& variant : study.variants) variants.push_back(variant.name);
  if (study.options.baseline.empty()) study.options.baseline = variants[0];
  if (!std::ranges::count(variants, study.options.baseline))
    fail(ExitCode::kBadConfiguration, place_of(tree, "study.baseline"), ": study.baseline: got ",
         study.options.baseline, ", expected one of the variants ", joined(variants));
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
    const auto add = [&](std::string name, const std::string& variant, Json config, std::string warm_up) {
      config["run"]["dir"] = (folder / "runs" / name).string();
      config["run"]["seed"] = seed;
      runs.push_back({std::move(name), variant, seed, std::move(config), std::move(warm_up)});
    };
    std::vector<std::pair<Json, std::string>> warm_ups;  // of this seed: what it is, and its name
    for (const Variant& variant : study.variants) {
      const std::string number = "-" + std::to_string(seed);
      Json config = variant.tree.value;
      std::string warm_up;
      if (warms_up(config)) {
        const Json before = warm_up_of(config);
        const auto made = std::ranges::find(warm_ups, before, &std::pair<Json, std::string>::first);
        if (made == warm_ups.end()) {
          warm_up = (warm_ups.empty() ? kWarmUp : std::string(kWarmUp) + "-" + variant.name) + number;
          warm_ups.emplace_back(before, warm_up);
          add(warm_up, "", before, "");
        } else {
          warm_up = made->second;
        }
        config.erase("sft");
        config["model"] = Json{{"path", (folder / "runs" / warm_up).string()}};
      }
      add(variant.name + number, variant.name, std::move(config), warm_up);
    }
  }
  return runs;
}

}  // namespace keel
