#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
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
  std::vector<std::string> measures;

  void describe(OptionTable& t);
};

/// One way of doing what is studied: the common configuration with its own settings in it.
struct Variant {
  std::string name;
  ConfigTree tree;
};

/// Variants of one configuration, each run once from every seed.
struct Study {
  std::string name;  // of its file
  std::string file;  // from the root folder on
  StudyOptions options;
  std::vector<Variant> variants;   // in the file's order
  std::vector<std::string> notes;  // what of the base's file is not taken
};

/// The configuration that the variants share, where a study names its file.
std::optional<ConfigTree> read_base_file(const ConfigTree& tree);

/// Reads a study: its sections are `study`, `base` (a configuration, or the name of its file, which is read
/// already), `variants` (a name to settings) and `sizes` (a name to settings, of which `size` is put over the base).
/// What was typed behind the file wins over all of them. A base's file may be one that a run was made with: the folder
/// and the seed that it names are not taken.
Study read_study(const ConfigTree& tree, const std::optional<ConfigTree>& base_file, const std::string& size);

/// Loads every variant's configuration, so that a mistake in one is told before the first run. Notes to print are
/// returned.
std::vector<std::string> check_variants(const Study& study);

/// One process of a study: the configuration that `keel train` gets, and where it writes.
struct StudyRun {
  std::string name;     // "dppo_tv-3"
  std::string variant;  // empty for a warm-up
  uint64_t seed = 0;
  Json config;
  std::string warm_up = {};  // the name of the run that must be done before; empty for none
};

/// The runs of a study in the order they begin: a seed's warm-up, which all variants share that do not change what it
/// does, then their runs.
std::vector<StudyRun> plan_runs(const Study& study);

}  // namespace keel
