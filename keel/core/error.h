#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>

#include "keel/core/str_cat.h"

namespace keel {

/// What a process of Keel's says when it ends. Documented in docs/exit-codes.md; 0 means that everything planned
/// happened.
enum class ExitCode : int {
  kDone = 0,
  kCheckFailed = 1,           // a check (verify, inspect) answered no
  kBadConfiguration = 2,     // command line or configuration
  kBadInput = 3,             // an input file
  kHealthGuard = 4,          // non-finite numbers, sampler and trainer disagree, disk full
  kRewardProgramFailed = 5,  // an external reward program
  kInternal = 70,
  kInterrupted = 75,  // saved and resumable
};

/// An error a user can act on: it names the place, the value got, the value wanted and the way out.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

[[noreturn]] void throw_error(ExitCode code, std::initializer_list<StrCatPart> parts);

/// Throws an Error whose message is the parts written one after the other.
template <class... Parts>
[[noreturn]] void fail(ExitCode code, const Parts&... parts) {
  throw_error(code, {parts...});
}

}  // namespace keel
