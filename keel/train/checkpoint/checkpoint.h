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

/// Everything a checkpoint holds: a Hugging Face model folder, and what training needs to go on. Where the folder's
/// weights are narrower than float32, the masters are beside the optimizer's moments. An adapter is merged into the
/// folder's weights and lies, in PEFT's files, in the folder `adapter`.
struct Checkpoint {
  LoadedModel policy;                  // of the masters; an adapter is merged into its weights
  std::vector<NamedTensor> optimizer;  // moments of policy and critic, past policies, loss scale
  TrainState state;
  RunFolder::Lines lines;                 // of the run's growing files
  Json config;                            // the resolved configuration
  std::optional<Critic> critic = {};      // of the masters
  std::string run = {};                   // its id; a checkpoint with another is never removed
  std::vector<NamedTensor> adapter = {};  // the masters; where it is loaded, set_adapter() reads them
};

/// The name of a step's folder.
std::string checkpoint_name(int64_t step);

/// The same in host memory, apart from all that training changes: to be written while it goes on.
Checkpoint copied_to_host(Checkpoint checkpoint);
/// Replaces the checkpoint by that copy. Returns false and changes nothing if there is no memory for it.
bool copy_to_host(Checkpoint& checkpoint);
/// How much more memory that takes.
int64_t bytes_to_copy(const Checkpoint& checkpoint);
/// Whether a copy of so many bytes fits into the memory that is available now, beside what the process may need again
/// (the most that it has held less what it holds), with some to spare.
bool has_room_for_copy(int64_t bytes, int64_t needed_again, int64_t available);

/// Writes RUN/checkpoints/step-NNNNNN: all files, then manifest.json with their sizes and checksums and those of the
/// lines that the run has written, under a partial name. The folder gets its name last, and then LATEST is moved: a
/// reader sees a whole checkpoint or none. This run's older checkpoints beyond `keep` are removed, apart from the best
/// one. A disk without room for it is an Error (exit code 4) before anything is written. Unless it is the run's
/// `first`, nothing is written among nothing but other runs' checkpoints (exit code 2). Other things with its name are
/// moved aside.
std::filesystem::path save_checkpoint(const std::filesystem::path& checkpoints, const Checkpoint& checkpoint,
                                      int64_t keep, bool first = false);

/// Finishes a save after the checkpoint got its name: LATEST names it, the link `best` leads to the checkpoint of the
/// best step, if there is one, and half-written folders of killed processes of its run are removed. A run that was
/// killed before this is resumed with it.
void finish_save(const std::filesystem::path& checkpoint, const std::optional<BestEvaluation>& kept = {});

/// Checks every file of a checkpoint against its manifest; the reason when it does not hold.
std::optional<std::string> find_damage(const std::filesystem::path& checkpoint);

/// The checkpoints of a run, sound or not, newest first.
std::vector<std::filesystem::path> finished_checkpoints(const std::filesystem::path& checkpoints);

/// The newest checkpoint that verifies, and is not of another run than find_run_id(); notes about damaged newer ones
/// are appended. None: an empty path; none but others', or of nobody knows which: an Error (kBadInput).
std::filesystem::path newest_checkpoint(const std::filesystem::path& checkpoints, std::vector<std::string>& notes);

/// In which rows of metrics and samples a run's files are not what its newest checkpoint remembers: a sentence for each
/// file. None without a checkpoint that remembers any; where the machine cannot read them a ReadFailure.
std::vector<std::string> find_changed_rows(const std::filesystem::path& run);
/// The same with a checkpoint of the run.
std::vector<std::string> find_changed_rows(const std::filesystem::path& run, const std::filesystem::path& checkpoint);

/// The training state of a checkpoint. One of another format than this program's is refused by its number.
TrainState load_state(const std::filesystem::path& checkpoint);

/// The whole of it, refused alike. The adapter stays merged: set_adapter gives a network that it can be trained on.
Checkpoint load_checkpoint(const std::filesystem::path& checkpoint, at::Device device);

/// The float32 weights that a checkpoint keeps beside narrower ones: what was trained. Nothing where it has none.
std::optional<WeightSource> float32_weights(const std::filesystem::path& checkpoint);

/// The key of config.json that lists the bases whose adapters the weights have in them.
constexpr const char* kMergedAdapters = "merged_adapters";

/// How it does: a folder's name without the folders around it, which are nobody's business where the weights go.
Json portable_base_name(const Json& base);

/// Where a checkpoint has its adapter, if it has one.
std::filesystem::path adapter_folder(const std::filesystem::path& checkpoint);

/// Puts a checkpoint's adapter on the network that it was trained on, and returns its adapter_config.json.
Json set_adapter(const std::filesystem::path& checkpoint, ModelWeights& base);

inline constexpr const char* kReferenceFolder = "reference";

/// Writes the policy that RL starts from, RUN/reference: a folder with a manifest, whole or not at all, that is there
/// before the first RL checkpoint. It holds a model, or of a policy with an adapter the adapter alone, and no file
/// where the reference is the base with the adapter off. Anything else of that name is moved aside.
void save_reference(const std::filesystem::path& folder, const ModelWeights& reference, const LoadedModel& policy,
                    const std::string& run);

/// Why the folder is not what was written there, if so.
std::optional<std::string> find_reference_damage(const std::filesystem::path& folder, const LoadedModel& policy);

/// Shares the base's weights with a policy that has an adapter.
ModelWeights load_reference(const std::filesystem::path& folder, const LoadedModel& policy);

}  // namespace keel
