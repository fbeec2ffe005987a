// Beside what the library has: GoogleTest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmake/precompiled.h"
