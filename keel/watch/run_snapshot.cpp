#include "keel/watch/run_snapshot.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <span>
#include <string_view>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/hash.h"
#include "keel/core/files/json_file.h"
#include "keel/core/json_reader.h"
#include "keel/record/run_ownership.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kChunkBytes = uint64_t{1} << 20;  // a row has a few thousand bytes

void add_row(std::string_view line, RunRows& rows) {
  const Json row = try_parse_json(line, {.depth = kDataDepth}).value_or(Json());
  if (!row.is_object()) return;
  const Json phase = row.value("phase", Json()), step = row.value("step", Json()),
             reward = row.value("reward/mean", Json());
  if (!phase.is_string() || !step.is_number_integer()) return;
  rows.phase = phase.get<std::string>();
  rows.step = step.get<int64_t>();
  if (rows.phase == "rl" && !rows.first_step) rows.first_step = rows.step;
  if (rows.phase == "rl" && reward.is_number()) rows.rewards.push_back(reward.get<double>());
  if (rows.first_step && rows.phase != "sft" && !row.contains("sft/eval_loss")) rows.step -= *rows.first_step - 1;
}

/// Reads the complete lines after those of `before`, or all lines if the file does not continue those.
std::shared_ptr<const RunRows> read_rows(const fs::path& metrics, const RunRows& before) {
  const InputFile file = InputFile::open(metrics);
  const auto read = [&](uint64_t offset, uint64_t bytes) {
    std::string text(bytes, '\0');
    file.read_at(offset, std::as_writable_bytes(std::span(text)));
    return text;
  };
  const size_t known = before.last_line.size();
  const bool continues = file.size() >= before.bytes && read(before.bytes - known, known) == before.last_line;
  const auto rows = std::make_shared<RunRows>(continues ? before : RunRows());
  for (;;) {
    const std::string text = read(rows->bytes, std::min(file.size() - rows->bytes, kChunkBytes));
    const size_t end = text.rfind('\n');
    if (end == std::string::npos) return rows;
    for (size_t begin = 0, next = 0; begin <= end; begin = next) {
      next = text.find('\n', begin) + 1;
      rows->last_line = text.substr(begin, next - begin);
      add_row(rows->last_line, *rows);
    }
    rows->bytes += end + 1;
  }
}

double seconds_of(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void read_files(const fs::path& run, const RunRows& rows_before, RunSnapshot& snapshot) {
  try {
    if (snapshot.has_rows) snapshot.rows = read_rows(run / "metrics.jsonl", rows_before);
    const Json method = json_if_any(run / "used.json").value("objective.method", Json());
    if (method.is_string()) snapshot.method = method.get<std::string>();
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
    read_files(run, *before.rows, snapshot);
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
