#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "keel/core/error.h"

namespace keel {

/// The machine could not read what is there (EIO, ESTALE ...): nothing is wrong with the path, and what the file says
/// is not known. What bears a file that somebody removed, spoiled or locked away must not take this for the same.
class ReadFailure : public Error {
 public:
  explicit ReadFailure(const std::string& message) : Error(ExitCode::kBadInput, message) {}
};

/// Throws the Error of a call that failed to read, where the machine is at fault a ReadFailure: "cannot read PATH: ..."
/// and the way out.
[[noreturn]] void fail_to_read(const std::filesystem::path& path, int error);

/// Throws the Error of a call that failed to write: "cannot ACTION PATH: ..." and the way out.
[[noreturn]] void fail_to_write(std::string_view action, const std::filesystem::path& path, int error);

}  // namespace keel
