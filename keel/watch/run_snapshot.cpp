#include "keel/watch/run_snapshot.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/hash.h"
#include "keel/core/json_reader.h"
#include "keel/record/run_ownership.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxTailBytes = uint64_t{1} << 18;  // a row has a few thousand bytes

/// Returns the last complete line of a file, if it is within the last kMaxTailBytes bytes.
std::string last_line(const fs::path& path) {
  const InputFile file = InputFile::open(path);
  const uint64_t size = std::min(file.size(), kMaxTailBytes);
  std::string tail(size, '\0');
  file.read_at(file.size() - size, std::as_writable_bytes(std::span(tail)));
  const size_t end = tail.rfind('\n');
  if (end == std::string::npos || end == 0) return "";
  const size_t previous = tail.rfind('\n', end - 1);
  if (previous == std::string::npos && size < file.size()) return "";
  const size_t begin = previous == std::string::npos ? 0 : previous + 1;
  return tail.substr(begin, end - begin);
}

void read_last_row(const fs::path& metrics, RunSnapshot& snapshot) {
  const Json row = try_parse_json(last_line(metrics), {.depth = kDataDepth}).value_or(Json());
  if (!row.is_object()) return;
  const Json phase = row.value("phase", Json()), step = row.value("step", Json());
  if (!phase.is_string() || !step.is_number_integer()) return;
  snapshot.phase = phase.get<std::string>();
  snapshot.step = step.get<int64_t>();
}

double seconds_of(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void read_small_files(const fs::path& run, RunSnapshot& snapshot) {
  try {
    if (snapshot.has_rows) read_last_row(run / "metrics.jsonl", snapshot);
    snapshot.id = find_run_id(run);
    snapshot.is_finished = is_finished(run);
    const std::optional<fs::path> latest = latest_checkpoint(run);
    snapshot.has_checkpoint = latest && is_checkpoint(*latest);
  } catch (const Error&) {  // replaced or removed at this moment; the next snapshot has it
  }
}

}  // namespace

LockedFolders LockedFolders::read() {
  LockedFolders locked;
  std::ifstream lines("/proc/locks");
  for (std::string line; std::getline(lines, line);) {  // 3: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF
    char kind[16], access[16];
    unsigned major = 0, minor = 0;
    unsigned long inode = 0;
    const int found =
        std::sscanf(line.c_str(), "%*s %15s %*s %15s %*s %x:%x:%lu", kind, access, &major, &minor, &inode);
    if (found == 5 && std::string_view(kind) == "FLOCK" && std::string_view(access) == "WRITE")
      locked.folders_.emplace(makedev(major, minor), inode);
  }
  return locked;
}

bool LockedFolders::contains(dev_t device, ino_t inode) const {
  // stat() and /proc/locks report different anonymous devices (major 0) for a file on a btrfs subvolume.
  return std::ranges::any_of(folders_, [&](const auto& folder) {
    return folder.second == inode && (folder.first == device || (major(device) == 0 && major(folder.first) == 0));
  });
}

RunSnapshot take_snapshot(const fs::path& run, const LockedFolders& locked, const RunSnapshot& before) {
  RunSnapshot snapshot;
  struct stat status {};
  if (::stat(run.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return snapshot;
  std::string identity = std::to_string(status.st_ino);
  for (const char* name :
       {"metrics.jsonl", "samples.jsonl", "log.txt", "config.yaml", "used.json", "tokens", "checkpoints/LATEST"}) {
    struct stat file {};
    const bool found = ::stat((run / name).c_str(), &file) == 0;
    const std::string_view file_name = name;
    if (file_name == "metrics.jsonl") snapshot.has_rows = found && S_ISREG(file.st_mode);
    if (file_name == "metrics.jsonl" || file_name == "samples.jsonl" || file_name == "log.txt")
      snapshot.last_write = std::max(snapshot.last_write, seconds_of(file.st_mtim));
    if (file_name == "log.txt") continue;  // its content repeats the rows
    identity += found ? " " + std::to_string(file.st_ino) + " " + std::to_string(file.st_size) + " " +
                            std::to_string(file.st_mtim.tv_sec) + "." + std::to_string(file.st_mtim.tv_nsec)
                      : " -";
  }
  const double last_write = snapshot.last_write;
  const std::string version = sha256_hex(identity).substr(0, 16);
  if (version == before.version) {
    snapshot = before;
  } else {
    read_small_files(run, snapshot);
  }
  snapshot.exists = true;
  snapshot.is_locked = locked.contains(status.st_dev, status.st_ino);
  snapshot.last_write = last_write;
  snapshot.version = version;
  return snapshot;
}

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "config.yaml", ignored) || fs::exists(folder / "metrics.jsonl", ignored);
}

}  // namespace keel
