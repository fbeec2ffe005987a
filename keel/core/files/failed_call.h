#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "keel/core/error.h"

namespace keel {

/// An I/O failure of the machine (EIO, ESTALE ...). The path may be right, and the file's content is unknown. Code that
/// tolerates missing, damaged or unreadable files must not treat this failure like those.
class ReadFailure : public Error {
 public:
  explicit ReadFailure(const std::string& message) : Error(ExitCode::kBadInput, message) {}
};

/// Throws an Error, or a ReadFailure if the machine is at fault, for a failed read: "cannot read PATH: ..." and a fix.
[[noreturn]] void fail_to_read(const std::filesystem::path& path, int error);

/// Throws an Error for a failed write: "cannot ACTION PATH: ..." and a fix.
[[noreturn]] void fail_to_write(std::string_view action, const std::filesystem::path& path, int error);

}  // namespace keel
