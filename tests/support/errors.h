#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <string>

#include "keel/core/error.h"

namespace keel {

using testing::AllOf, testing::HasSubstr, testing::Not;  // to compare messages

/// Returns the message of the Error that `action` throws. The test fails without one or with another exit code.
inline std::string error_of(int exit_code, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), exit_code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

}  // namespace keel
