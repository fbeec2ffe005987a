#include "keel/core/parallel.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <atomic>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "tests/support/no_threads.h"

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

TEST(ParallelFor, ThrowsTheExceptionOfTheLowestIndexAndRunsTheRest) {
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

TEST(ParallelFor, WorksWithoutOtherThreads) {
  const NoThreads limit;
  EXPECT_THROW(std::thread([] {}), std::system_error);
  std::vector<std::atomic<int>> calls(37);
  parallel_for(calls.size(), 4, [&](size_t i) { ++calls[i]; });
  for (const auto& count : calls) EXPECT_EQ(count, 1);
}

TEST(BeginThreads, StartsAsManyAsTheLimitAllows) {
  std::atomic<size_t> begun = 0;
  EXPECT_EQ(begin_threads(3, [&] { ++begun; }).size(), 3u);  // joins them
  EXPECT_EQ(begun, 3u);
  {
    const NoThreads limit;
    EXPECT_EQ(begin_threads(3, [&] { ++begun; }).size(), 0u);
  }
  // Memory for some threads: at most 3 stacks of 256 MiB fit into 800 MiB.
  pthread_attr_t before, large;
  pthread_getattr_default_np(&before);
  large = before;
  pthread_attr_setstacksize(&large, size_t{256} << 20);
  pthread_setattr_default_np(&large);
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit memory{};
  getrlimit(RLIMIT_AS, &memory);
  const rlimit some{pages * 4096 + (size_t{800} << 20), memory.rlim_max};
  setrlimit(RLIMIT_AS, &some);
  begun = 0;
  const size_t made = begin_threads(20, [&] { ++begun; }).size();
  setrlimit(RLIMIT_AS, &memory);
  pthread_setattr_default_np(&before);
  pthread_attr_destroy(&before);
  EXPECT_GE(made, 1u);
  EXPECT_LT(made, 20u);
  EXPECT_EQ(begun, made);
}

}  // namespace
}  // namespace keel
