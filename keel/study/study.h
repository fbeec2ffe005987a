#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/options/options.h"

namespace keel {

/// Section `study` of a study's file.
struct StudyOptions {
  std::string dir;
  int64_t seeds = 8;
  uint64_t first_seed = 0;
  int64_t jobs = 1;
  int64_t last = 20;
  bool keep_checkpoints = true;
  std::string baseline;
  std::vector<std::string> measures, comparisons;

  void describe(OptionTable& t);
};

/// A variant: the base configuration with changed settings.
struct Variant {
  std::string name;
  ConfigTree tree;
};

/// Variants of one configuration, each run once per seed.
struct Study {
  std::string name;  // the name of its file without extension
  std::string file;  // absolute path
  StudyOptions options;
  std::vector<Variant> variants;   // in the file's order
  std::vector<std::string> notes;  // about ignored settings of the base file
};

/// Returns the two variants of a comparison, "A vs B".
std::pair<std::string, std::string> compared_variants(const std::string& comparison);

/// Reads the base configuration if `base` is the name of a file.
std::optional<ConfigTree> read_base_file(const ConfigTree& tree);

/// Reads a study. Its sections are `study`, `base` (a configuration, or a file name, with its contents in `base_file`),
/// `variants` (settings by name) and `sizes` (settings by name; those of `size` override the base). The command line
/// overrides all of them. run.dir and run.seed of a base file are ignored.
Study read_study(const ConfigTree& tree, const std::optional<ConfigTree>& base_file, const std::string& size);

/// Loads every variant's configuration, so that errors appear before the first run. Returns notes to print.
std::vector<std::string> check_variants(const Study& study);

/// One process of a study, with the configuration for `keel train`.
struct StudyRun {
  std::string name;     // "dppo_tv-3"
  std::string variant;  // empty for an SFT run
  uint64_t seed = 0;
  Json config;
  std::string sft_run = {};  // the run to start from, or empty
};

/// Returns the runs of a study in their order. For each seed, the SFT run comes first; variants with the same
/// SFT settings share it.
std::vector<StudyRun> plan_runs(const Study& study);

}  // namespace keel
