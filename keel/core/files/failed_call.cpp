#include "keel/core/files/failed_call.h"

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <system_error>

#include "keel/core/console.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

std::string words(int error) { return std::generic_category().message(error); }

/// The way out of a lack that is the machine's and not the disk's; null for any other error.
const char* way_out_of_lack(int error) {
  return error == EMFILE   ? "raise the limit of open files (ulimit -n)"
         : error == ENFILE ? "raise the system's limit of open files (fs.file-max) or end other programs"
         : error == ENOMEM ? "free some memory"
                           : nullptr;
}

}  // namespace

void fail_to_read(const fs::path& path, int error) {
  const bool is_absent = error == ENOENT || error == ENOTDIR;
  const char* way_out =
      is_absent && path.string().find('$') != std::string::npos
          ? "only a shell knows what a $NAME stands for, and it leaves it alone in a file and between "
            "single quotes: write the whole path"
      : is_absent                         ? "check the path"
      : error == EACCES || error == EPERM ? "change its permissions or run as a user who may read it"
      : error == EISDIR                   ? "give a file, not a folder"
      : error == ENAMETOOLONG             ? "check the path, or give it shorter names"
      : error == ELOOP                    ? "check the path, and where its links lead"
                                          : nullptr;
  constexpr size_t kShown = 400;  // one that is too long for the system is too long for a line
  const std::string what = str_cat("cannot read \"", shorten(path.string(), kShown), "\": ", words(error), "; ");
  const char* lack = way_out_of_lack(error);
  if (way_out == nullptr) throw ReadFailure(what + (lack ? lack : "check the disk and the path"));
  fail(ExitCode::kBadInput, what, way_out);
}

void fail_to_write(std::string_view action, const fs::path& path, int error) {
  constexpr ExitCode kPath = ExitCode::kBadConfiguration, kMachine = ExitCode::kHealthGuard;
  const auto where = [&](std::initializer_list<int> errors, ExitCode code, const char* way_out) {
    if (std::find(errors.begin(), errors.end(), error) != errors.end())
      fail(code, "cannot ", action, " ", path, ": ", words(error), "; ", way_out);
  };
  where({EACCES, EPERM, EROFS}, kPath, "change the permissions or choose a folder that may be written to");
  where({ENOENT, ENOTDIR}, kPath, "create the folder first or correct the path");
  where({EEXIST, ENOTEMPTY}, kPath, "remove what is there or choose another name");
  where({EISDIR, ELOOP, ENAMETOOLONG, EXDEV, EINVAL}, kPath, "choose another path");
  where({ENOSPC, EDQUOT}, kMachine, "free some space or choose a folder on another disk");
  where({EFBIG}, kMachine, "raise the file-size limit (ulimit -f) or choose another filesystem");
  // EIO, ESTALE ...: the machine's condition too, and not the user's path
  const char* lack = way_out_of_lack(error);
  fail(kMachine, "cannot ", action, " ", path, ": ", words(error), "; ",
       lack ? lack : "check the disk and the system log");
}

}  // namespace keel
