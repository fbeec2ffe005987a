#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>

#include "keel/core/str_cat.h"

namespace keel {

/// The exit codes, documented in docs/exit-codes.md.
enum class ExitCode : int {
  kDone = 0,                 // everything planned was done
  kCheckFailed = 1,          // a check (verify, inspect) failed
  kBadConfiguration = 2,     // command line or configuration
  kBadInput = 3,             // an input file
  kHealthGuard = 4,          // NaN or infinity, sampler and trainer differ, disk full
  kRewardProgramFailed = 5,  // an external reward program
  kInternal = 70,
  kInterrupted = 75,  // saved and resumable
};

/// An error that a user can fix. The message names the location, the actual and the expected value, and a fix.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

[[noreturn]] void throw_error(ExitCode code, std::initializer_list<StrCatPart> parts);

/// Throws an Error whose message is the concatenation of the parts.
template <class... Parts>
[[noreturn]] void fail(ExitCode code, const Parts&... parts) {
  throw_error(code, {parts...});
}

}  // namespace keel
