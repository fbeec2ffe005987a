#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/json.h"
#include "keel/model/loaded_model.h"
#include "keel/model/network/critic.h"
#include "keel/record/run_folder.h"
#include "keel/train/checkpoint/state.h"

namespace keel {

/// The contents of a checkpoint: a Hugging Face model folder, and the state to resume training. If the folder's weights
/// are narrower than float32, optimizer.safetensors also has the float32 masters. An adapter is merged into the
/// folder's weights, and is also in the folder `adapter` in PEFT format.
struct Checkpoint {
  LoadedModel policy;                  // from the masters; to be saved, with the adapter merged
  std::vector<NamedTensor> optimizer;  // moments of policy and critic, past policies, loss scale
  TrainState state;
  RunFolder::Checksums lines;             // of the lines of the run's log files
  Json config;                            // the resolved configuration
  std::optional<Critic> critic = {};      // from the masters
  std::string run = {};                   // id of the run, which removes only checkpoints with its id
  std::vector<NamedTensor> adapter = {};  // the masters; load_checkpoint() leaves it empty, set_adapter() reads it
};

/// The name of a step's checkpoint folder, and the step of such a name.
std::string checkpoint_name(int64_t step);
int64_t step_of_checkpoint(const std::filesystem::path& checkpoint);

/// Returns a copy in host memory, which can be written while training continues.
Checkpoint copied_to_host(Checkpoint checkpoint);
/// Replaces the checkpoint by such a copy. Returns false and changes nothing if memory runs out.
bool copy_to_host(Checkpoint& checkpoint);
/// The memory that the copy takes, in bytes.
int64_t bytes_to_copy(const Checkpoint& checkpoint);
/// Returns whether a copy of `bytes` fits into 90% of the available memory, together with the `reserve` that the
/// process may need again (its peak minus its current use).
bool has_room_for_copy(int64_t bytes, int64_t reserve, int64_t available);

/// Writes RUN/checkpoints/step-NNNNNN atomically: all files under a partial name, then manifest.json with their
/// checksums and those of the run's lines, then the rename and LATEST. Removes this run's older checkpoints beyond
/// `keep`, except the best one. Fails before writing if the disk is too full (exit code 4), or if only other runs'
/// checkpoints exist and this is not the run's `first` (exit code 2). Other files with this name are moved aside.
std::filesystem::path save_checkpoint(const std::filesystem::path& checkpoints, const Checkpoint& checkpoint,
                                      int64_t keep, bool first = false);

/// Finishes a save after the rename: updates LATEST and the link `best`, and removes half-written folders of killed
/// processes of this run. Resuming calls it again, in case the run was killed before it.
void finish_save(const std::filesystem::path& checkpoint, const std::optional<BestEvaluation>& best = {});

/// Verifies every file of a checkpoint against its manifest. Returns the damage, if any.
std::optional<std::string> find_damage(const std::filesystem::path& checkpoint);

/// The checkpoints of a run, including damaged ones, newest first.
std::vector<std::filesystem::path> finished_checkpoints(const std::filesystem::path& checkpoints);

/// Returns the newest valid checkpoint of the run find_run_id(), and appends notes about damaged newer ones. Returns an
/// empty path if there is none. Fails (kBadInput) if all checkpoints belong to other runs.
std::filesystem::path newest_checkpoint(const std::filesystem::path& checkpoints, std::vector<std::string>& notes);

/// Compares the rows of metrics.jsonl and samples.jsonl with the checksums in the run's newest checkpoint. Returns one
/// sentence per changed file; none without such a checkpoint. Throws ReadFailure for unreadable files.
std::vector<std::string> find_changed_rows(const std::filesystem::path& run);
/// The same for a given checkpoint.
std::vector<std::string> find_changed_rows(const std::filesystem::path& run, const std::filesystem::path& checkpoint);

/// Loads the training state of a checkpoint. Fails for another format version.
TrainState load_state(const std::filesystem::path& checkpoint);

/// Loads the configuration that a checkpoint was trained with. Fails for another format version.
Json saved_config(const std::filesystem::path& checkpoint);

/// Loads a checkpoint. If it has an adapter, the policy's weights are zeros: the caller loads the base, and
/// set_adapter() the adapter. Fails for another format version.
Checkpoint load_checkpoint(const std::filesystem::path& checkpoint, at::Device device);

/// The float32 masters in a checkpoint whose folder has narrower weights; none otherwise.
std::optional<WeightSource> float32_weights(const std::filesystem::path& checkpoint);

/// The key of config.json that lists the bases of the adapters merged into the weights.
constexpr const char* kMergedAdapters = "merged_adapters";

/// Shortens a base's path to the folder's name, so that shared weights do not contain local paths.
Json portable_base_name(const Json& base);

/// Returns whether a checkpoint has an adapter, and its merged weights are rounded, which loses most of a small update.
/// False if the user has changed the folder and so removed its manifest.
bool has_rounded_adapter(const std::filesystem::path& checkpoint);

/// The path of a checkpoint's adapter.
std::filesystem::path adapter_folder(const std::filesystem::path& checkpoint);

/// Loads a checkpoint's adapter into its base model, and returns its adapter_config.json.
Json set_adapter(const std::filesystem::path& checkpoint, ModelWeights& base);

inline constexpr const char* kReferenceFolder = "reference";

/// Writes the policy at the start of RL to RUN/reference atomically, with a manifest. The folder has a model, or only
/// the adapter for a policy with one, or no weights if the reference is the base without adapter. Other files with this
/// name are moved aside.
void save_reference(const std::filesystem::path& folder, const ModelWeights& reference, const LoadedModel& policy,
                    const std::string& run);

/// Verifies a saved reference. Returns the damage, if any.
std::optional<std::string> find_reference_damage(const std::filesystem::path& folder, const LoadedModel& policy);

/// Loads the reference. It shares the base weights with a policy that has an adapter.
ModelWeights load_reference(const std::filesystem::path& folder, const LoadedModel& policy);

}  // namespace keel
