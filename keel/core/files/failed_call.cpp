#include "keel/core/files/failed_call.h"

#include <cerrno>
#include <system_error>

#include "keel/core/console.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

std::string words(int error) { return std::generic_category().message(error); }

}  // namespace

void fail_to_read(const fs::path& path, int error) {
  const char* way_out = error == ENOENT || error == ENOTDIR ? "check the path"
                        : error == EACCES || error == EPERM ? "change its permissions or run as a user who may read it"
                        : error == EISDIR                   ? "give a file, not a folder"
                        : error == ENAMETOOLONG             ? "check the path, or give it shorter names"
                        : error == ELOOP                    ? "check the path, and where its links lead"
                                                            : nullptr;
  constexpr size_t kShown = 400;  // one that is too long for the system is too long for a line
  const std::string what = written("cannot read \"", shorten(path.string(), kShown), "\": ", words(error), "; ");
  if (way_out == nullptr) throw ReadFailure(what + "check the disk and the path");
  fail(ExitCode::kBadInput, what, way_out);
}

void fail_to_write(std::string_view action, const fs::path& path, int error) {
  ExitCode code = ExitCode::kBadConfiguration;
  const char* way_out = "choose another path";
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      way_out = "change the permissions or choose a folder that may be written to";
      break;
    case ENOENT:
    case ENOTDIR:
      way_out = "create the folder first or correct the path";
      break;
    case EEXIST:
    case ENOTEMPTY:
      way_out = "remove what is there or choose another name";
      break;
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EXDEV:
    case EINVAL:
      break;
    case ENOSPC:
    case EDQUOT:
      code = ExitCode::kHealthGuard;
      way_out = "free some space or choose a folder on another disk";
      break;
    case EFBIG:
      code = ExitCode::kHealthGuard;
      way_out = "raise the file-size limit (ulimit -f) or choose another filesystem";
      break;
    default:  // EIO, ENOMEM, EMFILE, ESTALE ...: the machine's condition, not the user's path
      code = ExitCode::kHealthGuard;
      way_out = "check the disk and the system log";
  }
  fail(code, "cannot ", action, " ", path, ": ", words(error), "; ", way_out);
}

}  // namespace keel
