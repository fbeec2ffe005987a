#pragma once

#include <exception>
#include <string>

#include "keel/core/error.h"

namespace keel::cli {

/// Describes how the program ends after an exception: its exit code, and the message that follows "keel: ".
struct Failure {
  ExitCode code;
  std::string message;
};

Failure describe_failure(const std::exception& error);

}  // namespace keel::cli
