#include "keel/core/files/atomic_directory.h"

#include <stdio.h>

#include <algorithm>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/files/directory_path.h"
#include "keel/core/files/file.h"
#include "keel/core/files/hash.h"
#include "keel/core/files/json_file.h"

namespace keel {
namespace {

std::string hex(uint32_t value) {
  char text[9];
  snprintf(text, sizeof(text), "%08x", value);
  return text;
}

std::string compute_checksum(const InputFile& file) {
  Crc32c checksum;
  file.for_each_piece([&](std::span<const std::byte> piece) { checksum.update(piece); });
  return hex(checksum.value());
}

constexpr const char* kManifestChecksum = "crc32c";

/// Computes the checksum of a manifest without its own checksum field.
std::string compute_checksum(Json manifest) {
  manifest.erase(kManifestChecksum);
  return hex(crc32c(manifest.dump()));
}

bool matches_own_checksum(const Json& manifest) {
  return manifest.is_object() && manifest.value(kManifestChecksum, Json()) == compute_checksum(manifest);
}

/// Adds the files of a folder and its subfolders. `prefix` is the folder's path from the top folder.
void add_files(const std::filesystem::path& folder, const std::string& prefix, Json& files) {
  for (const std::string& name : list_directory(folder)) {
    if (is_folder(folder / name)) {
      add_files(folder / name, prefix + name + "/", files);
      continue;
    }
    const InputFile file = InputFile::open(folder / name);
    files[prefix + name] = {{"bytes", file.size()}, {"crc32c", compute_checksum(file)}};
  }
}

void write_manifest(const std::filesystem::path& folder, Json manifest) {
  manifest["files"] = Json::object();
  add_files(folder, "", manifest["files"]);
  manifest[kManifestChecksum] = compute_checksum(manifest);
  write_atomically(folder / "manifest.json", manifest.dump(1));
}

/// Renames the finished folder to its final name. If that name exists (a step that is saved again after an evaluation),
/// one call exchanges the two names, so that the final name always exists. The other folder is kept.
void publish(const std::filesystem::path& partial, const std::filesystem::path& final_name) {
  if (path_exists(final_name) && exchange_directories(partial, final_name)) return;
  if (path_exists(final_name))
    rename_directory(final_name, std::filesystem::path(partial).replace_extension(".replaced"));
  rename_directory(partial, final_name);
}

void write_folder(const std::filesystem::path& folder, const std::filesystem::path& partial, const FillFolder& fill) {
  try {
    create_directories(partial);
    fill(partial);
  } catch (...) {
    try {
      remove_tree(partial);  // frees the space, which may be what was missing
    } catch (const Error&) {
      // Report the first error.
    }
    throw;
  }
  publish(partial, folder);
}

}  // namespace

void write_directory_atomically(const std::filesystem::path& folder, const FillFolder& fill) {
  const std::filesystem::path partial = free_partial_name(folder);
  write_folder(folder, partial, fill);
  for (const char* ending : {".partial", ".replaced"})  // remove the replaced folder if it is empty
    remove_if_empty(std::filesystem::path(partial).replace_extension(ending));
}

void write_directory_atomically(const std::filesystem::path& folder, const std::filesystem::path& partial,
                                const Json& heading, const FillFolder& fill) {
  write_folder(folder, partial, [&](const std::filesystem::path& directory) {
    fill(directory);
    write_manifest(directory, heading);
  });
}

namespace {

bool contains_only(const std::filesystem::path& folder, const std::string& prefix, const Json& files) {
  const std::vector<std::string> names = list_directory(folder);
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return is_folder(folder / name) ? contains_only(folder / name, prefix + name + "/", files)
                                    : files.contains(prefix + name) || prefix + name == "manifest.json";
  });
}

}  // namespace

bool matches_manifest_exactly(const std::filesystem::path& folder) {
  return contains_only(folder, "", valid_manifest(folder).value("files", Json::object()));
}

Json valid_manifest(const std::filesystem::path& folder) {
  const Json manifest = json_if_any(folder / "manifest.json");
  return matches_own_checksum(manifest) ? manifest : Json::object();
}

std::optional<std::string> find_manifest_mismatch(const std::filesystem::path& folder,
                                                  std::span<const char* const> required) {
  try {
    const Json manifest = read_json_file(folder / "manifest.json");
    if (!matches_own_checksum(manifest)) return "manifest.json does not match its own checksum";
    for (const auto& [name, entry] : manifest.at("files").items()) {
      const uint64_t size = entry.at("bytes");
      if (!path_exists(folder / name)) return name + " is missing";
      const InputFile file = InputFile::open(folder / name);
      if (file.size() != size)
        return name + " has " + std::to_string(file.size()) + " bytes, expected " + std::to_string(size) +
               " by the manifest";
      if (compute_checksum(file) != entry.at("crc32c").get<std::string>())
        return name + " has another checksum than in the manifest";
    }
    for (const char* name : required)
      if (!manifest.at("files").contains(name)) return std::string("the manifest does not list ") + name;
  } catch (const Error& error) {
    return error.what();
  } catch (const Json::exception& error) {
    return std::string("manifest.json: ") + error.what();
  }
  return std::nullopt;
}

}  // namespace keel
