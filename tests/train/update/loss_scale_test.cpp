#include "keel/train/update/optimizer.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(LossScale, HalvesAtAnOverflowAndDoublesAfter2000FiniteUpdates) {
  LossScale scale;
  EXPECT_EQ(scale.value(), 65536);
  for (int i = 0; i < 1999; ++i) scale.count_finite();
  EXPECT_EQ(scale.value(), 65536);
  EXPECT_TRUE(scale.halve());  // and resets the count
  EXPECT_EQ(scale.value(), 32768);
  for (int i = 0; i < 1999; ++i) scale.count_finite();
  EXPECT_EQ(scale.value(), 32768);
  scale.count_finite();
  EXPECT_EQ(scale.value(), 65536);
}

TEST(LossScale, IsNeverBelowOne) {
  LossScale scale;
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(scale.halve());
  EXPECT_EQ(scale.value(), 1);
  EXPECT_FALSE(scale.halve());
  EXPECT_EQ(scale.value(), 1);
}

}  // namespace
}  // namespace keel
