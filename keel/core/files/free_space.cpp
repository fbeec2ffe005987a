#include "keel/core/files/free_space.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/directory_path.h"
#include "keel/core/files/file.h"
#include "keel/core/files/retry_on_eintr.h"

namespace keel {

std::optional<uint64_t> free_space(const std::filesystem::path& folder) {
  const DirectoryPath resolved = directory_path(folder);
  const FileHandle handle(retry_on_eintr(
      [&] { return ::openat(resolved.directory, resolved.name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  struct statvfs disk {};
  if (!handle.is_open() || retry_on_eintr([&] { return ::fstatvfs(handle.get(), &disk); }) != 0) return {};
  if (disk.f_blocks == 0) return {};  // some network filesystems report no blocks
  return uint64_t{disk.f_bavail} * disk.f_frsize;
}

void require_free_space(const std::filesystem::path& folder, uint64_t bytes) {
  const std::optional<uint64_t> free = free_space(folder);
  if (free && *free < bytes)
    fail(ExitCode::kHealthGuard, "cannot write to ", folder, ": No space left on device: this needs ",
         format_bytes(static_cast<int64_t>(bytes)), " and the disk has ", format_bytes(static_cast<int64_t>(*free)),
         " left; free some space or choose a folder on another disk");
}

}  // namespace keel
