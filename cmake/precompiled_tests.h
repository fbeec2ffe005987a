// Adds GoogleTest to the header of the library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmake/precompiled.h"
