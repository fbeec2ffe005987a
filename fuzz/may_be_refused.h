#pragma once

#include <cstdlib>

#include "keel/core/error.h"

namespace keel::fuzz {

/// Bad input may be refused as such, with this code; anything else that an action throws is a finding.
template <class Action>
void may_be_refused(const Action& action, ExitCode code = ExitCode::kBadInput) {
  try {
    action();
  } catch (const Error& error) {
    if (error.code() != code) std::abort();
  }
}

}  // namespace keel::fuzz
