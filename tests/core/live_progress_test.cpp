#include "keel/core/live_progress.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace keel {
namespace {

TEST(StageMeter, ReportsProgressAndSpeedOfAStage) {
  double time = 100;
  StageMeter meter([&] { return time; });
  EXPECT_EQ(meter.text(), "");
  meter.begin("rollout", 128);
  EXPECT_EQ(meter.text(), "rollout 0/128");
  time = 104;
  meter.set(37, 1640);
  EXPECT_EQ(meter.text(), "rollout 37/128, 410 tokens/s");
  meter.begin("scoring", 128);
  meter.set(5);
  EXPECT_EQ(meter.text(), "scoring 5/128");
  meter.end();
  EXPECT_EQ(meter.text(), "");
}

TEST(StageMeter, AStageEndsWithItsScopeAlsoAfterAnException) {
  StageMeter meter;
  try {
    const Stage stage(meter, "update", 4);
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(meter.text(), "");
}

TEST(LiveLine, RefreshesTheTextFromAnotherThread) {
  char* data = nullptr;
  size_t size = 0;
  std::FILE* const file = open_memstream(&data, &size);
  std::atomic<int> calls = 0;
  {
    Console console(file, {.terminal = true, .width = 40});
    const LiveLine live(console, [&] { return "stage " + std::to_string(++calls); });
    while (calls < 2) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::fclose(file);
  EXPECT_TRUE(std::string(data, size).starts_with("\rstage 1\x1b[K"));
  std::free(data);
}

}  // namespace
}  // namespace keel
