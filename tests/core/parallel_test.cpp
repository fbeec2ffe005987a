#include "keel/core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace keel {
namespace {

TEST(ParallelFor, CallsEachIndexOnce) {
  for (const size_t threads : {0, 1, 3, 50}) {
    std::vector<std::atomic<int>> calls(37);
    parallel_for(calls.size(), threads, [&](size_t i) { ++calls[i]; });
    for (const auto& count : calls) EXPECT_EQ(count, 1);
  }
  parallel_for(0, 4, [](size_t) { FAIL(); });
}

TEST(ParallelFor, GivesTheExceptionOfTheLowestIndexAndRunsTheRest) {
  std::atomic<int> calls = 0;
  try {
    parallel_for(20, 4, [&](size_t i) {
      ++calls;
      if (i == 7 || i == 13) throw std::runtime_error(std::to_string(i));
    });
    ADD_FAILURE() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "7");
  }
  EXPECT_EQ(calls, 20);
}

}  // namespace
}  // namespace keel
