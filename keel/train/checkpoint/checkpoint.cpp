#include "keel/train/checkpoint/checkpoint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <memory>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/atomic_directory.h"
#include "keel/core/files/failed_call.h"
#include "keel/core/files/file.h"
#include "keel/core/files/free_space.h"
#include "keel/core/files/json_file.h"
#include "keel/core/files/link.h"
#include "keel/core/tensor/device.h"
#include "keel/core/tensor/host_memory.h"
#include "keel/model/folder/adapter_folder.h"
#include "keel/model/folder/critic_folder.h"
#include "keel/model/folder/model_folder.h"
#include "keel/model/formats/safetensors/safetensors.h"
#include "keel/record/run_ownership.h"

namespace keel {
namespace {

constexpr const char *kRun = "run", *kFormat = "format";  // in manifest.json
constexpr std::string_view kNamePrefix = "step-";
constexpr std::string_view kFormatName = "keel checkpoint ";
/// Increases with any change of the files or of the fields in state.json. Only this version can be resumed.
constexpr int64_t kFormatVersion = 5;

/// Fails for checkpoints of other format versions, before a missing field would.
void require_current_format(const std::filesystem::path& checkpoint) {
  const Json format = json_if_any(checkpoint / "manifest.json").value(kFormat, Json());
  const std::string written = format.is_string() ? format.get<std::string>() : "";
  const std::string current = std::string(kFormatName) + std::to_string(kFormatVersion);
  if (written == current || !written.starts_with(kFormatName)) return;
  const bool newer = std::atoll(written.c_str() + kFormatName.size()) > kFormatVersion;
  fail(ExitCode::kBadInput, checkpoint.string(), ": the format is \"", escape_controls(written.substr(0, 40)), "\" of ",
       newer ? "a newer" : "an older", " Keel; expected \"", current,
       "\". Use the Keel that wrote it, or start a new run from ", "its weights with model.path=", checkpoint.string(),
       " and another run.dir; `keel convert` makes a model folder ", "for evaluation");
}

/// The checkpoints in a folder except those of other runs, newest first.
std::vector<std::filesystem::path> own_checkpoints(const std::filesystem::path& checkpoints) {
  std::vector<std::filesystem::path> paths = finished_checkpoints(checkpoints);
  const std::string own = find_run_id(checkpoints.parent_path());
  std::erase_if(paths, [&](const std::filesystem::path& path) { return belongs_to_other_run(path, own); });
  return paths;
}

/// Removes older checkpoints of this run beyond `keep`, except the best one, and all later ones: a run that resumed
/// from an older checkpoint writes them again, and a damaged one must not replace a valid one.
void remove_old_checkpoints(const std::filesystem::path& checkpoints, const Checkpoint& saved, int64_t keep) {
  int64_t kept = 0;
  for (const auto& path : finished_checkpoints(checkpoints)) {
    if (read_run_id(path) != saved.run) continue;
    const std::string name = path.filename().string();
    const bool is_later = step_of_checkpoint(path) > saved.state.step();
    if (!is_later && (++kept <= keep || (saved.state.best && name == checkpoint_name(saved.state.best->step))))
      continue;
    const std::filesystem::path best = checkpoints / kBestCheckpoint;
    if (link_target(best) == name) remove_file(best);  // before its target, so that it never dangles
    remove_own_folder(path, saved.run);
  }
}

constexpr const char* kLines = "lines_crc32c";   // in manifest.json
constexpr std::string_view kMaster = ".master";  // name suffix of float32 masters

std::vector<NamedTensor> read_moments(const SafetensorsFile& file) {
  std::vector<NamedTensor> tensors;
  for (const TensorInfo& info : file.tensors())
    if (!info.name.ends_with(kMaster)) tensors.push_back({info.name, file.read(info.name)});
  return tensors;
}

void write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  std::vector<std::pair<std::string, Tensor>> pairs;
  for (const NamedTensor& tensor : tensors) pairs.emplace_back(tensor.name, tensor.value.detach());
  write_safetensors(path, pairs, {{"format", "pt"}});
}

/// Returns whether the folder stores any weight in a narrower type than float32.
bool has_narrow_weights(const LoadedModel& policy) {
  const std::vector<NamedTensor> weights = policy.model.parameters();
  return std::any_of(weights.begin(), weights.end(),
                     [&](const NamedTensor& weight) { return policy.dtypes.get(weight.name) != at::kFloat; });
}

/// Appends the adapter's base to merged_adapters in config.json, which converted folders and later runs keep.
void record_merged_adapter(const std::filesystem::path& folder, const Json& adapter) {
  const Json base = portable_base_name(adapter.value("base_model_name_or_path", Json()));
  const std::filesystem::path path = folder / "config.json";
  Json config = read_json_file(path);
  Json& merged = config[kMergedAdapters];
  if (!merged.is_array()) merged = Json::array();
  if (std::find(merged.begin(), merged.end(), base) == merged.end()) merged.push_back(base);
  write_atomically(path, config.dump(2) + "\n");
}

/// The contents of optimizer.safetensors: the optimizer state, and the masters if the folder has narrower weights.
std::vector<NamedTensor> optimizer_tensors(const Checkpoint& checkpoint) {
  const LoadedModel& policy = checkpoint.policy;
  std::vector<NamedTensor> tensors = checkpoint.optimizer;
  if (policy.adapter.empty() && has_narrow_weights(policy))
    for (const NamedTensor& weight : policy.model.parameters())
      tensors.push_back({weight.name + std::string(kMaster), weight.value});
  return tensors;
}

uint64_t bytes_in(const std::vector<NamedTensor>& tensors) {
  uint64_t bytes = 0;
  for (const NamedTensor& tensor : tensors) bytes += tensor.value.nbytes();
  return bytes;
}

/// The size of all tensors, without headers, tokenizer and state.
uint64_t bytes_on_disk(const Checkpoint& checkpoint) {
  uint64_t bytes = bytes_in(optimizer_tensors(checkpoint)) + bytes_in(checkpoint.adapter);
  if (checkpoint.critic) bytes += bytes_in(MasterWeights().value_of(checkpoint.critic->weights()));
  for (const NamedTensor& weight : checkpoint.policy.model.parameters())
    bytes += weight.value.numel() * c10::elementSize(checkpoint.policy.dtypes.get(weight.name));
  return bytes;
}

void write_checkpoint_files(const std::filesystem::path& folder, const Checkpoint& checkpoint) {
  const LoadedModel& policy = checkpoint.policy;
  write_model_folder(folder, policy.model, policy.tokenizer, policy.generation, policy.dtypes);
  if (!policy.adapter.empty()) {
    create_directories(adapter_folder(folder));
    write_adapter(adapter_folder(folder), checkpoint.adapter, policy.adapter);
    record_merged_adapter(folder, policy.adapter);
  }
  if (checkpoint.critic) write_critic(folder, *checkpoint.critic);
  write_tensors(folder / "optimizer.safetensors", optimizer_tensors(checkpoint));
  const Json state = {{"state", to_json(checkpoint.state)}, {"config", checkpoint.config}};
  write_atomically(folder / "state.json", state.dump(1));
}

/// Fails if all checkpoints in the folder belong to other runs, because this run's were replaced.
void require_own_checkpoints(const std::filesystem::path& checkpoints, const std::string& run) {
  const std::vector<std::filesystem::path> all = finished_checkpoints(checkpoints);
  const auto is_foreign = [&](const std::filesystem::path& path) { return belongs_to_other_run(path, run); };
  if (!all.empty() && std::all_of(all.begin(), all.end(), is_foreign))
    fail(ExitCode::kBadConfiguration, all.front().string(), " is a checkpoint of another run, and the folder has none ",
         "of this run. Restore this run's checkpoints");
}

RunFolder::Checksums read_lines(const std::filesystem::path& checkpoint) {
  const Json lines = read_json_file(checkpoint / "manifest.json").at(kLines);
  const auto read = [&](const char* file) {
    std::optional<LineChecksums> checksums = from_hex(lines.at(file).get<std::string>());
    if (!checksums)
      fail(ExitCode::kBadInput, (checkpoint / "manifest.json").string(), ": ", kLines, ".", file,
           " must have eight hexadecimal digits for each line. Restore the file");
    return std::move(*checksums);
  };
  return {read("metrics"), read("samples"), read("log")};
}

/// Reads state.json, which has the state and the configuration.
Json read_state_file(const std::filesystem::path& checkpoint) {
  require_current_format(checkpoint);
  return read_json_file(checkpoint / "state.json");
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  std::string digits = std::to_string(step);
  return std::string(kNamePrefix) + std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
}

int64_t step_of_checkpoint(const std::filesystem::path& checkpoint) {
  return std::stoll(checkpoint.filename().string().substr(kNamePrefix.size()));
}

std::vector<std::filesystem::path> finished_checkpoints(const std::filesystem::path& checkpoints) {
  std::vector<std::pair<int64_t, std::filesystem::path>> found;
  if (is_folder(checkpoints)) {
    for (const std::string& name : list_directory(checkpoints))
      if (is_checkpoint(checkpoints / name)) found.emplace_back(step_of_checkpoint(name), checkpoints / name);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::filesystem::path> paths;
  for (auto& [step, path] : found) paths.push_back(path);
  return paths;
}

std::filesystem::path adapter_folder(const std::filesystem::path& checkpoint) { return checkpoint / "adapter"; }

void save_reference(const std::filesystem::path& folder, const ModelWeights& reference, const LoadedModel& policy,
                    const std::string& run) {
  if (!is_own_reference(folder, run) || !matches_manifest_exactly(folder)) move_aside(folder);
  remove_leftovers(folder.parent_path(), run);
  const Json heading = {{"format", "keel reference 1"}, {kRun, run}};
  write_directory_atomically(folder, partial_path(folder, run), heading, [&](const auto& partial) {
    if (policy.adapter.empty())
      write_model_folder(partial, reference, policy.tokenizer, policy.generation, at::kFloat);
    else if (reference.has_adapter())
      write_adapter(partial, reference.adapter(), policy.adapter);
  });
  remove_leftovers(folder.parent_path(), run);
}

std::optional<std::string> find_reference_damage(const std::filesystem::path& folder, const LoadedModel& policy) {
  constexpr std::array kModelFiles{"config.json", "model.safetensors"};
  return find_manifest_mismatch(folder, std::span(kModelFiles).first(policy.adapter.empty() ? kModelFiles.size() : 0));
}

ModelWeights load_reference(const std::filesystem::path& folder, const LoadedModel& policy) {
  if (const auto damage = find_reference_damage(folder, policy))
    fail(ExitCode::kBadInput, folder.string(), ": the reference policy of this run is damaged: ", *damage,
         ". Restore the folder from a copy, or start the run again with --overwrite");
  const bool has_adapter = !policy.adapter.empty();
  ModelWeights reference =
      has_adapter ? policy.model.without_adapter() : read_model_folder(folder, policy.model.device());
  if (has_adapter && std::filesystem::exists(folder / "adapter_config.json")) read_adapter(folder, reference);
  reference.set_compute_type(policy.model.compute_type());
  return reference;
}

Json portable_base_name(const Json& base) {
  const std::filesystem::path path = base.is_string() ? base.get<std::string>() : "";
  return path.is_absolute() ? Json((path / "").parent_path().filename().string()) : base;
}

Checkpoint copied_to_host(Checkpoint checkpoint) {
  const auto copied = [](const Weight& weight) { return copy_to_host_memory(weight.value()); };
  LoadedModel& policy = checkpoint.policy;
  // With an adapter, training does not change the merged weights, so they need no copy on the CPU.
  policy.model = policy.model.with_replaced([&](const Weight& weight) {
    return policy.adapter.empty() || !weight.device().is_cpu() ? copied(weight) : weight.value();
  });
  for (std::vector<NamedTensor>* tensors : {&checkpoint.optimizer, &checkpoint.adapter})
    for (NamedTensor& tensor : *tensors) tensor.value = copy_to_host_memory(tensor.value);
  if (std::optional<Critic>& critic = checkpoint.critic) critic = critic->with_replaced(copied);
  return checkpoint;
}

bool copy_to_host(Checkpoint& checkpoint) {
  try {
    checkpoint = copied_to_host(checkpoint);
    return true;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    return false;
  }
}

bool has_room_for_copy(int64_t bytes, int64_t reserve, int64_t available) {
  return bytes + reserve <= available / 10 * 9;
}

int64_t bytes_to_copy(const Checkpoint& checkpoint) {
  uint64_t bytes = bytes_in(checkpoint.optimizer) + bytes_in(checkpoint.adapter);
  if (checkpoint.critic) bytes += bytes_in(MasterWeights().value_of(checkpoint.critic->weights()));
  for (const NamedTensor& weight : checkpoint.policy.model.parameters())
    if (checkpoint.policy.adapter.empty() || !weight.value.is_cpu()) bytes += weight.value.nbytes();
  return static_cast<int64_t>(bytes);
}

std::filesystem::path save_checkpoint(const std::filesystem::path& checkpoints, const Checkpoint& checkpoint,
                                      int64_t keep, bool first) {
  const std::filesystem::path folder = checkpoints / checkpoint_name(checkpoint.state.step());
  create_directories(checkpoints);
  if (!first) require_own_checkpoints(checkpoints, checkpoint.run);
  if (read_run_id(folder) != checkpoint.run || !matches_manifest_exactly(folder)) move_aside(folder);
  remove_leftovers(checkpoints, checkpoint.run);
  require_free_space(checkpoints, bytes_on_disk(checkpoint));
  const RunFolder::Checksums& lines = checkpoint.lines;
  const Json heading = {
      {kFormat, std::string(kFormatName) + std::to_string(kFormatVersion)},
      {kRun, checkpoint.run},
      {"step", checkpoint.state.step()},
      {kLines, {{"metrics", to_hex(lines.metrics)}, {"samples", to_hex(lines.samples)}, {"log", to_hex(lines.log)}}}};
  write_directory_atomically(folder, partial_path(folder, checkpoint.run), heading,
                             [&](const auto& partial) { write_checkpoint_files(partial, checkpoint); });
  finish_save(folder, checkpoint.state.best);
  remove_old_checkpoints(checkpoints, checkpoint, keep);
  return folder;
}

void finish_save(const std::filesystem::path& checkpoint, const std::optional<BestEvaluation>& best) {
  const std::filesystem::path checkpoints = checkpoint.parent_path(), link = checkpoints / kBestCheckpoint;
  write_atomically(checkpoints / "LATEST", checkpoint.filename().string() + "\n");
  const std::optional<std::string> target = link_target(link);
  const bool is_own = target && is_checkpoint_name(*target);
  if (is_own && !path_exists(checkpoints / *target)) remove_file(link);
  if (best && is_checkpoint(checkpoints / checkpoint_name(best->step))) {
    if (!is_own) move_aside(link);
    point_link(link, checkpoint_name(best->step));
  }
  remove_leftovers(checkpoints, read_run_id(checkpoint));
}

std::optional<std::string> find_damage(const std::filesystem::path& checkpoint) {
  constexpr const char* kRequired[] = {"config.json", "model.safetensors", "optimizer.safetensors", "state.json"};
  return find_manifest_mismatch(checkpoint, kRequired);
}

std::filesystem::path newest_checkpoint(const std::filesystem::path& checkpoints, std::vector<std::string>& notes) {
  const std::vector<std::filesystem::path> own = own_checkpoints(checkpoints);
  for (const auto& path : own) {
    const std::optional<std::string> damage = find_damage(path);
    if (!damage) return path;
    notes.push_back(path.string() + " is damaged (" + *damage + "); trying an older one");
  }
  if (const auto all = finished_checkpoints(checkpoints); own.empty() && !all.empty())
    fail(ExitCode::kBadInput, checkpoints.string(), " has no checkpoint of this run: ", all.front().filename().string(),
         " belongs to run ", read_run_id(all.front()),
         ", and used.json does not name that run. Restore this run's checkpoints, and move others away");
  return {};
}

std::vector<std::string> find_changed_rows(const std::filesystem::path& run) {
  const std::vector<std::filesystem::path> checkpoints = own_checkpoints(run / "checkpoints");
  return checkpoints.empty() ? std::vector<std::string>() : find_changed_rows(run, checkpoints.front());
}

std::vector<std::string> find_changed_rows(const std::filesystem::path& run, const std::filesystem::path& checkpoint) {
  std::vector<std::string> changes;
  try {
    const RunFolder::Checksums lines = read_lines(checkpoint);
    for (const auto& [name, checksums] :
         {std::pair{"metrics.jsonl", &lines.metrics}, {"samples.jsonl", &lines.samples}})
      if (const auto change = find_changed_line(run / name, *checksums))
        changes.push_back((run / name).string() + ": " + *change + ", compared with " + checkpoint.string());
  } catch (const ReadFailure&) {  // it is unknown whether they were changed
    throw;
  } catch (const Error&) {  // there is nothing to compare with
  } catch (const Json::exception&) {
  }
  return changes;
}

std::optional<WeightSource> float32_weights(const std::filesystem::path& checkpoint) {
  // Without a manifest, the user may have changed the folder's weights, which then take precedence.
  const std::filesystem::path path = checkpoint / "optimizer.safetensors";
  if (!path_exists(checkpoint / "manifest.json") || !path_exists(path)) return std::nullopt;
  const auto file = std::make_shared<const SafetensorsFile>(SafetensorsFile::open(path));
  WeightSource source{.origin = path.string(), .shapes = {}, .read = [file](const std::string& name) {
                        return file->read_float32(name + std::string(kMaster));
                      }};
  for (const TensorInfo& info : file->tensors())
    if (info.name.ends_with(kMaster))
      source.shapes[info.name.substr(0, info.name.size() - kMaster.size())] = info.shape;
  return source.shapes.empty() ? std::nullopt : std::optional(std::move(source));
}

bool has_rounded_adapter(const std::filesystem::path& checkpoint) {
  if (!path_exists(checkpoint / "manifest.json") || !path_exists(adapter_folder(checkpoint))) return false;
  // A run merges in its compute dtype, and the file can be narrower.
  const std::string precision = saved_config(checkpoint).at("run").at("precision");
  return precision == "bf16" || precision == "fp16" || has_narrow_weights(load_folder_without_weights(checkpoint));
}

Json set_adapter(const std::filesystem::path& checkpoint, ModelWeights& base) {
  return read_adapter(adapter_folder(checkpoint), base);
}

TrainState load_state(const std::filesystem::path& checkpoint) {
  return state_from_json(read_state_file(checkpoint).value("state", Json()), (checkpoint / "state.json").string());
}

Json saved_config(const std::filesystem::path& checkpoint) { return read_state_file(checkpoint).at("config"); }

Checkpoint load_checkpoint(const std::filesystem::path& checkpoint, at::Device device) {
  const std::string path = (checkpoint / "state.json").string();
  const Json json = read_state_file(checkpoint);
  const SafetensorsFile optimizer = SafetensorsFile::open(checkpoint / "optimizer.safetensors");
  const std::optional<WeightSource> masters = float32_weights(checkpoint);
  try {
    const TrainState state = state_from_json(json.at("state"), path);
    const Json config = json.at("config");
    LoadedModel policy = path_exists(adapter_folder(checkpoint))
                             ? load_folder_without_weights(checkpoint)
                             : load_folder(checkpoint, {device}, masters ? &*masters : nullptr);
    std::optional<Critic> critic = read_critic(checkpoint, policy.model.config().hidden_size, device);
    return {.policy = std::move(policy),
            .optimizer = read_moments(optimizer),
            .state = state,
            .lines = read_lines(checkpoint),
            .config = config,
            .critic = std::move(critic),
            .run = read_run_id(checkpoint)};
  } catch (const Json::exception& error) {
    fail(ExitCode::kBadInput, path, ": ", error.what(), "; the checkpoint was written by another version");
  }
}

}  // namespace keel
