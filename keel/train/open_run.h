#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "keel/core/console.h"
#include "keel/model/loaded_model.h"
#include "keel/record/run_folder.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"
#include "keel/train/start/demonstrations.h"
#include "keel/train/start/prompt_sources.h"
#include "keel/train/trackers.h"
#include "keel/train/trainer.h"

namespace keel {

/// Everything that a new or resumed run starts with.
struct OpenedRun {
  Config config;
  LoadedModel policy;
  PromptSources prompt_sources;
  Demonstrations demonstrations;
  RunFolder folder;
  Trackers trackers;
  TrainState state;
  std::string id;                         // identifies the run's checkpoints
  std::filesystem::path checkpoint = {};  // to resume from; empty for a new run
  AuxiliaryWeights auxiliary = {};
  std::vector<NamedTensor> optimizer = {};  // moments, past policies and the loss scale
  std::vector<std::string> warnings = {};   // about damaged files in the folder
  std::vector<std::string> changes = {};    // of settings and data since the checkpoint
};

/// Replaces runs named as model or adapter by their checkpoints, and prints which.
Config resolve_run_paths(Config config, Console& console);

/// Opens a new run in config.run.dir. Fails for an existing run unless `replace`. A failure changes nothing on the
/// disk.
OpenedRun open_new_run(const Config& config, bool replace, Console& console);

/// Changes that the user accepts for a resumed run; other changes are errors.
struct AcceptedChanges {
  bool data = false;          // changed rows of the data files, but not another number of rows
  bool damaged_rows = false;  // changed rows of the run's metrics.jsonl and samples.jsonl
};

/// Opens the run in config.run.dir at its newest valid checkpoint. Fails, and changes nothing, if settings, data, base
/// model or the run's own rows have changed.
OpenedRun open_saved_run(const Config& config, const AcceptedChanges& accepted, Console& console);

/// The contents of config.yaml: all settings and the absolute run.dir, so that the run can be resumed from any folder.
std::string recorded_config(Config config);

/// Converts a checkpoint.best_metric to a key of evaluation rows: `auto` is the mean reward or accuracy.
std::string best_metric_key(const std::string& metric, const PromptSources& prompt_sources);

/// Fails (exit code 2) if checkpoint.best_metric is eval/accuracy but this run has eval/reward, or the reverse. The
/// configuration checks all other keys.
void require_best_metric(const Config& config, const PromptSources& prompt_sources);

}  // namespace keel
