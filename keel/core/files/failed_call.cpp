#include "keel/core/files/failed_call.h"

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <system_error>

#include "keel/core/console.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

std::string error_message(int error) { return std::generic_category().message(error); }

/// Returns the fix if the machine lacks descriptors or memory; null for other errors.
const char* resource_fix(int error) {
  return error == EMFILE   ? "raise the limit of open files (ulimit -n)"
         : error == ENFILE ? "raise the system's limit of open files (fs.file-max) or end other programs"
         : error == ENOMEM ? "free some memory"
                           : nullptr;
}

}  // namespace

void fail_to_read(const fs::path& path, int error) {
  const bool is_absent = error == ENOENT || error == ENOTDIR;
  const char* fix = is_absent && path.string().find('$') != std::string::npos
                        ? "a $NAME is expanded only by a shell, not in a file and not between single quotes: write the "
                          "whole path"
                    : is_absent                         ? "check the path"
                    : error == EACCES || error == EPERM ? "change its permissions or run as a user who may read it"
                    : error == EISDIR                   ? "give a file, not a folder"
                    : error == ENAMETOOLONG             ? "check the path, or give it shorter names"
                    : error == ELOOP                    ? "check the path, and where its links lead"
                                                        : nullptr;
  constexpr size_t kMaxShownPath = 400;  // the path may be longer than the system allows
  const std::string problem =
      str_cat("cannot read \"", shorten(path.string(), kMaxShownPath), "\": ", error_message(error), "; ");
  const char* machine_fix = resource_fix(error);
  if (fix == nullptr) throw ReadFailure(problem + (machine_fix ? machine_fix : "check the disk and the path"));
  fail(ExitCode::kBadInput, problem, fix);
}

void fail_to_write(std::string_view action, const fs::path& path, int error) {
  constexpr ExitCode kPath = ExitCode::kBadConfiguration, kMachine = ExitCode::kHealthGuard;
  const auto fail_if_in = [&](std::initializer_list<int> errors, ExitCode code, const char* fix) {
    if (std::find(errors.begin(), errors.end(), error) != errors.end())
      fail(code, "cannot ", action, " ", path, ": ", error_message(error), "; ", fix);
  };
  fail_if_in({EACCES, EPERM, EROFS}, kPath, "change the permissions or choose a folder that may be written to");
  fail_if_in({ENOENT, ENOTDIR}, kPath, "create the folder first or correct the path");
  fail_if_in({EEXIST, ENOTEMPTY}, kPath, "remove what is there or choose another name");
  fail_if_in({EISDIR, ELOOP, ENAMETOOLONG, EXDEV, EINVAL}, kPath, "choose another path");
  fail_if_in({ENOSPC, EDQUOT}, kMachine, "free some space or choose a folder on another disk");
  fail_if_in({EFBIG}, kMachine, "raise the file-size limit (ulimit -f) or choose another filesystem");
  // EIO, ESTALE ... are failures of the machine, too.
  const char* machine_fix = resource_fix(error);
  fail(kMachine, "cannot ", action, " ", path, ": ", error_message(error), "; ",
       machine_fix ? machine_fix : "check the disk and the system log");
}

}  // namespace keel
