#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "keel/core/error.h"

namespace keel {

/// Expects an Error with this code whose message contains every one of the pieces.
template <class Action>
void expect_error(ExitCode code, const std::vector<std::string>& pieces, Action action) {
  try {
    action();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    for (const std::string& piece : pieces) {
      EXPECT_NE(std::string(error.what()).find(piece), std::string::npos) << piece << " is not in: " << error.what();
    }
  }
}

}  // namespace keel
