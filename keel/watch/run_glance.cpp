#include "keel/watch/run_glance.h"

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

constexpr uint64_t kTail = uint64_t{1} << 18;  // rows are some thousand bytes

/// The last line of a file that has its newline, if it is no longer than a row can be.
std::string last_line(const fs::path& path) {
  const InputFile file = InputFile::open(path);
  const uint64_t size = std::min(file.size(), kTail);
  std::string tail(size, '\0');
  file.read_at(file.size() - size, std::as_writable_bytes(std::span(tail)));
  const size_t end = tail.rfind('\n');
  if (end == std::string::npos || end == 0) return "";
  const size_t before = tail.rfind('\n', end - 1);
  if (before == std::string::npos && size < file.size()) return "";
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return tail.substr(begin, end - begin);
}

void note_last_row(const fs::path& metrics, RunGlance& glance) {
  const Json row = try_parse_json(last_line(metrics), {.depth = kDataDepth}).value_or(Json());
  if (!row.is_object()) return;
  const Json phase = row.value("phase", Json()), step = row.value("step", Json());
  if (!phase.is_string() || !step.is_number_integer()) return;
  glance.phase = phase.get<std::string>();
  glance.step = step.get<int64_t>();
}

double seconds_of(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void read_small_files(const fs::path& run, RunGlance& glance) {
  try {
    if (glance.has_rows) note_last_row(run / "metrics.jsonl", glance);
    glance.id = find_run_id(run);
    glance.is_finished = is_finished(run);
  } catch (const Error&) {  // replaced or removed in this moment: the next look tells
  }
}

}  // namespace

LockedFolders LockedFolders::read() {
  LockedFolders locked;
  std::ifstream lines("/proc/locks");
  for (std::string line; std::getline(lines, line);) {  // 3: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF
    char kind[16], access[16];
    unsigned major = 0, minor = 0;
    unsigned long number = 0;
    const int found =
        std::sscanf(line.c_str(), "%*s %15s %*s %15s %*s %x:%x:%lu", kind, access, &major, &minor, &number);
    if (found == 5 && std::string_view(kind) == "FLOCK" && std::string_view(access) == "WRITE")
      locked.folders_.emplace(makedev(major, minor), number);
  }
  return locked;
}

bool LockedFolders::contains(dev_t device, ino_t number) const {
  // A subvolume has a device without a number of its own (major 0), and the lock names another one.
  return std::ranges::any_of(folders_, [&](const auto& folder) {
    return folder.second == number && (folder.first == device || (major(device) == 0 && major(folder.first) == 0));
  });
}

RunGlance glance_at(const fs::path& run, const LockedFolders& locked, const RunGlance& before) {
  RunGlance glance;
  struct stat seen {};
  if (::stat(run.c_str(), &seen) != 0 || !S_ISDIR(seen.st_mode)) return glance;
  std::string all = std::to_string(seen.st_ino);
  for (const char* name :
       {"metrics.jsonl", "samples.jsonl", "log.txt", "config.yaml", "used.json", "tokens", "checkpoints/LATEST"}) {
    struct stat file {};
    const bool found = ::stat((run / name).c_str(), &file) == 0;
    const std::string_view called = name;
    if (called == "metrics.jsonl") glance.has_rows = found && S_ISREG(file.st_mode);
    if (called == "metrics.jsonl" || called == "samples.jsonl" || called == "log.txt")
      glance.heard = std::max(glance.heard, seconds_of(file.st_mtim));
    if (called == "log.txt") continue;  // it says what the rows do
    all += found ? " " + std::to_string(file.st_ino) + " " + std::to_string(file.st_size) + " " +
                       std::to_string(file.st_mtim.tv_sec) + "." + std::to_string(file.st_mtim.tv_nsec)
                 : " -";
  }
  const double heard = glance.heard;
  const std::string version = sha256_hex(all).substr(0, 16);
  if (version == before.version) {
    glance = before;
  } else {
    read_small_files(run, glance);
  }
  glance.is_there = true;
  glance.is_held = locked.contains(seen.st_dev, seen.st_ino);
  glance.heard = heard;
  glance.version = version;
  return glance;
}

bool is_run(const fs::path& folder) {
  std::error_code unseen;
  return fs::exists(folder / "config.yaml", unseen) || fs::exists(folder / "metrics.jsonl", unseen);
}

}  // namespace keel
