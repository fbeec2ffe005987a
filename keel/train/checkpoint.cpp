#include "keel/train/checkpoint.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/file.h"
#include "keel/core/json_file.h"
#include "keel/model/model_folder.h"
#include "keel/model/safetensors.h"
#include "keel/train/whole_folder.h"

namespace keel {
namespace {

std::string folder_name(int64_t step) {
  std::string digits = std::to_string(step);
  return "step-" + std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
}

/// Names of finished checkpoints, newest first.
std::vector<std::filesystem::path> finished(const std::filesystem::path& checkpoints) {
  std::vector<std::pair<int64_t, std::filesystem::path>> found;
  if (std::filesystem::is_directory(checkpoints)) {
    for (const std::string& name : list_directory(checkpoints)) {
      const bool named = name.starts_with("step-") && name.size() > 5 && name.size() < 20 &&
                         std::all_of(name.begin() + 5, name.end(), [](unsigned char c) { return std::isdigit(c); });
      if (named) found.emplace_back(std::stoll(name.substr(5)), checkpoints / name);
    }
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::filesystem::path> paths;
  for (auto& [step, path] : found) paths.push_back(path);
  return paths;
}

/// Removes what a checkpoint just saved outlives: older ones beyond `keep`, and later ones, for a run that fell back to
/// an older checkpoint writes its future anew, and a damaged folder must not be kept in place of a sound one.
void remove_outlived(const std::filesystem::path& checkpoints, const std::filesystem::path& saved, int64_t keep) {
  int64_t kept = 0;
  bool later = true;
  for (const auto& path : finished(checkpoints)) {
    later = later && path != saved;
    if (later || ++kept > keep) remove_tree(path);
  }
}

constexpr const char* kAdapterFolder = "adapter";
constexpr std::string_view kMaster = ".master";  // ends the names of float32 weights beside narrower ones

std::vector<NamedTensor> read_moments(const SafetensorsFile& file) {
  std::vector<NamedTensor> tensors;
  for (const TensorInfo& info : file.tensors())
    if (!info.name.ends_with(kMaster)) tensors.push_back({info.name, file.read(info.name)});
  return tensors;
}

/// The float32 weights in optimizer.safetensors; without shapes where the folder's own are as wide.
WeightSource master_weights(const SafetensorsFile& file, const std::string& place) {
  WeightSource source{.place = place, .shapes = {}, .read = [&file](const std::string& name) {
                        return file.read_float32(name + std::string(kMaster));
                      }};
  for (const TensorInfo& info : file.tensors())
    if (info.name.ends_with(kMaster))
      source.shapes[info.name.substr(0, info.name.size() - kMaster.size())] = info.shape;
  return source;
}

void write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  std::vector<std::pair<std::string, Tensor>> pairs;
  for (const NamedTensor& tensor : tensors) pairs.emplace_back(tensor.name, tensor.value.detach());
  write_safetensors(path, pairs, {{"format", "pt"}});
}

}  // namespace

void save_reference(const std::filesystem::path& folder, const CausalLm& reference, const LoadedModel& policy) {
  write_whole_folder(folder, {{"format", "keel reference 1"}}, [&](const auto& partial) {
    write_model_folder(partial, reference, policy.tokenizer, policy.generation, at::kFloat);
  });
  remove_tree(folder.string() + ".replaced");  // of a process that was killed between two moves
}

CausalLm load_reference(const std::filesystem::path& folder, at::Device device) {
  constexpr const char* kRequired[] = {"config.json", "model.safetensors"};
  if (const auto damage = find_damage_in(folder, kRequired))
    fail(ExitCode::kBadInput, folder.string(), ": the reference policy of this run is damaged: ", *damage,
         ". Restore the folder from a copy, or start the run anew with --overwrite");
  return read_model_folder(folder, device);
}

namespace {

/// Whether the folder holds less than the float32 weights.
bool narrows(const LoadedModel& policy) {
  const std::vector<NamedTensor> weights = policy.model.parameters();
  return std::any_of(weights.begin(), weights.end(),
                     [&](const NamedTensor& weight) { return policy.dtypes.of(weight.name) != at::kFloat; });
}

void write_checkpoint_files(const std::filesystem::path& folder, const Checkpoint& checkpoint) {
  const LoadedModel& policy = checkpoint.policy;
  write_model_folder(folder, policy.model.merged(), policy.tokenizer, policy.generation, policy.dtypes);
  std::vector<NamedTensor> kept = checkpoint.optimizer;
  if (!policy.adapter.empty()) {
    create_directories(folder / kAdapterFolder);
    write_adapter(folder / kAdapterFolder, policy.model, policy.adapter);
  } else if (narrows(policy)) {
    for (const NamedTensor& weight : policy.model.parameters())
      kept.push_back({weight.name + std::string(kMaster), weight.value});
  }
  if (checkpoint.critic) write_critic(folder, *checkpoint.critic);
  write_tensors(folder / "optimizer.safetensors", kept);
  const Json state = {
      {"state", to_json(checkpoint.state)},
      {"files",
       {{"metrics", checkpoint.files.metrics}, {"samples", checkpoint.files.samples}, {"log", checkpoint.files.log}}},
      {"config", checkpoint.config}};
  write_atomically(folder / "state.json", state.dump(1));
}

}  // namespace

std::filesystem::path save_checkpoint(const std::filesystem::path& checkpoints, const Checkpoint& checkpoint,
                                      int64_t keep) {
  const std::filesystem::path folder = checkpoints / folder_name(checkpoint.state.step);
  write_whole_folder(folder, {{"format", "keel checkpoint 1"}, {"step", checkpoint.state.step}},
                     [&](const auto& partial) { write_checkpoint_files(partial, checkpoint); });
  finish_save(folder);
  remove_outlived(checkpoints, folder, keep);
  return folder;
}

void finish_save(const std::filesystem::path& checkpoint) {
  const std::filesystem::path checkpoints = checkpoint.parent_path();
  write_atomically(checkpoints / "LATEST", checkpoint.filename().string() + "\n");
  for (const std::string& name : list_directory(checkpoints))
    if (name.ends_with(".partial") || name.ends_with(".replaced")) remove_tree(checkpoints / name);
}

std::optional<std::string> find_damage(const std::filesystem::path& checkpoint) {
  constexpr const char* kRequired[] = {"config.json", "model.safetensors", "optimizer.safetensors", "state.json"};
  return find_damage_in(checkpoint, kRequired);
}

std::filesystem::path newest_checkpoint(const std::filesystem::path& checkpoints, std::vector<std::string>& notes) {
  // LATEST is a hint for people; what counts is the newest folder that verifies.
  for (const auto& path : finished(checkpoints)) {
    const std::optional<std::string> damage = find_damage(path);
    if (!damage) return path;
    notes.push_back(path.string() + " is damaged (" + *damage + "); looking for an older one");
  }
  return {};
}

Json put_adapter(const std::filesystem::path& checkpoint, CausalLm& base) {
  return read_adapter(checkpoint / kAdapterFolder, base);
}

Checkpoint load_checkpoint(const std::filesystem::path& checkpoint, at::Device device) {
  const std::string place = (checkpoint / "state.json").string();
  const Json json = read_json_file(place);
  const SafetensorsFile optimizer = SafetensorsFile::open(checkpoint / "optimizer.safetensors");
  const WeightSource masters = master_weights(optimizer, (checkpoint / "optimizer.safetensors").string());
  try {
    const TrainState state = state_from_json(json.at("state"), place);
    const RunFolder::Sizes files{json.at("files").at("metrics"), json.at("files").at("samples"),
                                 json.at("files").at("log")};
    const Json config = json.at("config");
    LoadedModel policy = load_folder(checkpoint, device, masters.shapes.empty() ? nullptr : &masters);
    std::optional<Critic> critic = read_critic(checkpoint, device);
    return {.policy = std::move(policy),
            .optimizer = read_moments(optimizer),
            .state = state,
            .files = files,
            .config = config,
            .critic = std::move(critic)};
  } catch (const Json::exception& error) {
    fail(ExitCode::kBadInput, place, ": ", error.what(), "; the checkpoint was written by another version");
  }
}

}  // namespace keel
