#include "keel/train/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/file.h"
#include "keel/core/hash.h"
#include "keel/model/safetensors.h"

namespace keel {
namespace {

std::string folder_name(int64_t step) {
  std::string digits = std::to_string(step);
  return "step-" + std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
}

std::string hex(uint32_t value) {
  char text[9];
  snprintf(text, sizeof(text), "%08x", value);
  return text;
}

uint32_t checksum_of_file(const std::filesystem::path& path, uint64_t size) {
  const InputFile file = InputFile::open(path);
  Crc32c checksum;
  std::vector<std::byte> piece(1 << 20);
  for (uint64_t offset = 0; offset < size; offset += piece.size()) {
    const std::span<std::byte> bytes(piece.data(), std::min<uint64_t>(piece.size(), size - offset));
    file.read_at(offset, bytes);
    checksum.update(bytes);
  }
  return checksum.value();
}

void write_manifest(const std::filesystem::path& folder, int64_t step) {
  Json manifest = {{"format", "keel checkpoint 1"}, {"step", step}, {"files", Json::object()}};
  for (const std::string& name : list_directory(folder)) {
    const std::filesystem::path file = folder / name;
    const uint64_t size = std::filesystem::file_size(file);
    manifest["files"][name] = {{"bytes", size}, {"crc32c", hex(checksum_of_file(file, size))}};
  }
  write_atomically(folder / "manifest.json", manifest.dump(1));
}

/// Gives the finished folder its name. When the name is taken (the same step, saved again after an evaluation), the two
/// are exchanged in one move, so that at every moment one of them has the name.
void publish(const std::filesystem::path& partial, const std::filesystem::path& final_name) {
  if (!std::filesystem::exists(final_name)) {
    rename_directory(partial, final_name);
    return;
  }
  if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, final_name.c_str(), RENAME_EXCHANGE) != 0) {
    const std::filesystem::path replaced = final_name.string() + ".replaced";
    rename_directory(final_name, replaced);
    rename_directory(partial, final_name);
    remove_tree(replaced);
    return;
  }
  sync_directory(final_name.parent_path());
  remove_tree(partial);
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

Json read_json(const std::filesystem::path& path) {
  const Json json = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) fail(ExitCode::kBadInput, path.string(), ": not JSON");
  return json;
}

std::vector<NamedTensor> read_tensors(const std::filesystem::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::vector<NamedTensor> tensors;
  for (const TensorInfo& info : file.tensors()) tensors.push_back({info.name, file.read(info.name)});
  return tensors;
}

void write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  std::vector<std::pair<std::string, Tensor>> pairs;
  for (const NamedTensor& tensor : tensors) pairs.emplace_back(tensor.name, tensor.value.detach());
  write_safetensors(path, pairs, {{"format", "pt"}});
}

}  // namespace

void write_model_folder(const std::filesystem::path& folder, const CausalLm& model, const Tokenizer& tokenizer) {
  Json special = Json::object();
  if (tokenizer.bos_id()) special["bos_token_id"] = *tokenizer.bos_id();
  if (tokenizer.eos_id()) special["eos_token_id"] = *tokenizer.eos_id();
  if (tokenizer.pad_id()) special["pad_token_id"] = *tokenizer.pad_id();
  Json generation = special;
  generation["do_sample"] = true;
  generation["temperature"] = 1.0;
  write_tensors(folder / "model.safetensors", model.parameters());
  write_atomically(folder / "config.json", to_config_json(model.config(), special).dump(2) + "\n");
  write_atomically(folder / "generation_config.json", generation.dump(2) + "\n");
  for (const auto& [name, bytes] : tokenizer.files()) write_atomically(folder / name, bytes);
}

namespace {

void write_checkpoint_folder(const std::filesystem::path& folder, const Checkpoint& checkpoint,
                             const Tokenizer& tokenizer) {
  create_directories(folder);
  write_model_folder(folder, checkpoint.model, tokenizer);
  write_tensors(folder / "optimizer.safetensors", checkpoint.optimizer);
  const Json state = {
      {"state", to_json(checkpoint.state)},
      {"files",
       {{"metrics", checkpoint.files.metrics}, {"samples", checkpoint.files.samples}, {"log", checkpoint.files.log}}},
      {"config", checkpoint.config}};
  write_atomically(folder / "state.json", state.dump(1));
  write_manifest(folder, checkpoint.state.step);
}

}  // namespace

std::filesystem::path save_checkpoint(const std::filesystem::path& checkpoints, const Checkpoint& checkpoint,
                                      const Tokenizer& tokenizer, int64_t keep) {
  const std::string name = folder_name(checkpoint.state.step);
  const std::filesystem::path partial = checkpoints / (name + ".partial");
  remove_tree(partial);
  try {
    write_checkpoint_folder(partial, checkpoint, tokenizer);
  } catch (...) {
    try {
      remove_tree(partial);  // on a full disk this gives the space back
    } catch (const Error&) {
      // The first error is the one to tell.
    }
    throw;
  }
  publish(partial, checkpoints / name);
  finish_save(checkpoints / name);
  remove_outlived(checkpoints, checkpoints / name, keep);
  return checkpoints / name;
}

void finish_save(const std::filesystem::path& checkpoint) {
  const std::filesystem::path checkpoints = checkpoint.parent_path();
  write_atomically(checkpoints / "LATEST", checkpoint.filename().string() + "\n");
  for (const std::string& name : list_directory(checkpoints))
    if (name.ends_with(".partial") || name.ends_with(".replaced")) remove_tree(checkpoints / name);
}

std::optional<std::string> find_damage(const std::filesystem::path& checkpoint) {
  try {
    const Json manifest = read_json(checkpoint / "manifest.json");
    for (const auto& [name, entry] : manifest.at("files").items()) {
      const std::filesystem::path file = checkpoint / name;
      const uint64_t size = entry.at("bytes");
      if (!std::filesystem::is_regular_file(file)) return name + " is missing";
      if (std::filesystem::file_size(file) != size)
        return name + " has " + std::to_string(std::filesystem::file_size(file)) + " bytes, the manifest says " +
               std::to_string(size);
      if (hex(checksum_of_file(file, size)) != entry.at("crc32c").get<std::string>())
        return name + " has another checksum than the manifest says";
    }
    for (const char* required : {"config.json", "model.safetensors", "optimizer.safetensors", "state.json"})
      if (!manifest.at("files").contains(required)) return std::string("the manifest does not name ") + required;
  } catch (const Error& error) {
    return error.what();
  } catch (const Json::exception& error) {
    return std::string("manifest.json: ") + error.what();
  }
  return std::nullopt;
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

Checkpoint load_checkpoint(const std::filesystem::path& checkpoint, at::Device device) {
  const std::string place = (checkpoint / "state.json").string();
  const Json json = read_json(place);
  const ModelConfig config =
      from_config_json(read_json(checkpoint / "config.json"), (checkpoint / "config.json").string());
  CausalLm model = CausalLm::from_tensors(config, read_tensors(checkpoint / "model.safetensors"), device,
                                          (checkpoint / "model.safetensors").string());
  try {
    const Json& files = json.at("files");
    return {std::move(model), read_tensors(checkpoint / "optimizer.safetensors"),
            state_from_json(json.at("state"), place),
            RunFolder::Sizes{files.at("metrics"), files.at("samples"), files.at("log")}, json.at("config")};
  } catch (const Json::exception& error) {
    fail(ExitCode::kBadInput, place, ": ", error.what(), "; the checkpoint was written by another version");
  }
}

}  // namespace keel
