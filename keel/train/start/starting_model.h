#pragma once

#include "keel/core/console.h"
#include "keel/core/files/hash.h"
#include "keel/model/loaded_model.h"
#include "keel/train/checkpoint/state.h"
#include "keel/train/config/config.h"

namespace keel {

/// Fails if files are set without a model that can read them, or data.eval_files without data.files.
void check_model_and_data(const Config& config);

/// Loads the model of model.path, or creates a randomly initialised network with the task's tokenizer. The caller sets
/// the compute dtype after adding an adapter; weights that are trained must be loaded in float32.
LoadedModel load_starting_model(const Config& config, const LoadOptions& options);

/// Returns how a run loads its base weights. Below an adapter they are never trained, so they need no float32 masters.
LoadOptions base_load_options(const Config& config, at::Device device, at::ScalarType type, Crc32c& checksum);

/// Loads the starting model and sets the adapter of a checkpoint, for `policy`. Returns false if it is another model
/// than the adapter was trained on; `policy` is then unchanged.
bool load_base_and_adapter(LoadedModel& policy, const Config& config, at::Device device, at::ScalarType type,
                           const std::filesystem::path& checkpoint);

/// Opens the run's device, replaces run.device=auto by its name, and prints it. Warns of a GPU that would be unused.
at::Device open_run_device(RunOptions& run, Console& console, bool resumes = false);

/// Returns the compute dtype, and replaces run.precision=auto by it.
at::ScalarType resolve_precision(RunOptions& run, at::Device device);

/// Returns the starting model for checks before loading: a model folder gets zero weights, which take no memory.
LoadedModel starting_model_without_weights(const Config& config);

/// Returns the architecture of the starting model.
ModelConfig starting_model_config(const Config& config);

/// Adds the configured adapter, if any, to a base model: a new one, or the one of lora.adapter.
void add_starting_adapter(LoadedModel& base, const Config& config);

/// Returns the hash of an adapter's weights ("sha256:..."), or "" if there are none.
std::string adapter_fingerprint(const std::filesystem::path& adapter);

/// Returns the execution options of a run's networks.
ExecutionOptions execution_options(const Config& config);

/// Returns the dropout of the next update. Its `update` counts the updates of both phases, so each draws new noise.
Dropout next_dropout(const Config& config, const TrainState& state);

/// Fails if a file of the folder does not match its manifest. Folders without a manifest pass.
void verify_checksums(const std::filesystem::path& folder);

/// Loads a model after verify_checksums(); a checkpoint gives its float32 master weights.
LoadedModel load_verified_model(const std::string& name, const LoadOptions& options);

/// Loads a model like load_verified_model(), with the adapter of a folder if its name is not empty. A checkpoint whose
/// merged weights are rounded gives its base with the adapter apart; if the base is missing or has changed, this warns
/// and returns the merged weights.
LoadedModel load_trained_model(const std::string& name, const std::string& adapter, const LoadOptions& options,
                               Console& console);

}  // namespace keel
