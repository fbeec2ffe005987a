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

/// Everything that a run begins or goes on with.
struct OpenedRun {
  Config config;
  LoadedModel policy;
  PromptSources prompt_sources;
  Demonstrations demonstrations;
  RunFolder folder;
  Trackers trackers;
  TrainState state;
  std::string id;                         // by which the run knows its checkpoints
  std::filesystem::path checkpoint = {};  // that it goes on from, with all below; empty: a new run
  AuxiliaryWeights companions = {};
  std::vector<NamedTensor> optimizer = {};  // moments, past policies and the loss scale
  std::vector<std::string> warnings = {};   // about what the folder had
  std::vector<std::string> changes = {};    // since the checkpoint, of what may change
};

/// With the checkpoints that runs stand for, where a model or an adapter is asked for; which they are, is told.
Config resolve_run_paths(Config config, Console& console);

/// A new run in config.run.dir; an existing one is refused unless `replace`. A refusal changes nothing on the disk.
OpenedRun open_new_run(const Config& config, bool replace, Console& console);

/// What may be other than it was when a run is resumed; without a word it is refused.
struct AcceptedChanges {
  bool data = false;          // rows of the data files, if not their number
  bool damaged_rows = false;  // rows that the run itself has written to metrics.jsonl and samples.jsonl
};

/// The run in config.run.dir goes on from its newest sound checkpoint. Refused is what would not be the same run: other
/// settings, data or base model, and changed rows of its own; that leaves everything as it is.
OpenedRun open_saved_run(const Config& config, const AcceptedChanges& accepted, Console& console);

/// What config.yaml says of a run: everything, and where it is, so that it can be resumed from any folder.
std::string recorded_config(Config config);

/// The key of evaluation rows that a checkpoint.best_metric stands for: `auto` is that of the mean.
std::string best_metric_key(const std::string& metric, const PromptSources& prompt_sources);

/// Refuses the mean of rewards by a name that it does not have in this run (exit code 2); the configuration refuses
/// other keys that evaluations do not have.
void require_best_metric(const Config& config, const PromptSources& prompt_sources);

}  // namespace keel
