#pragma once

#include <cstdlib>

#include "keel/core/error.h"

namespace keel::fuzz {

/// Runs an action, which may only throw an Error with this code.
template <class Action>
void may_be_refused(const Action& action, ExitCode code = ExitCode::kBadInput) {
  try {
    action();
  } catch (const Error& error) {
    if (error.code() != code) std::abort();
  }
}

}  // namespace keel::fuzz
