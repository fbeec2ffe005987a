#include "keel/core/histogram.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(Histogram, IsEqualAfterWritingAndParsing) {
  const Histogram histogram{
      .limits = {0.1, 1, 2.5}, .counts = {3, 0, 1}, .count = 4, .sum = 2.8, .sum_of_squares = 6.28, .smallest = 0.01,
      .largest = 2.5};
  const std::optional<Histogram> read = parse_histogram(Json::parse(to_json(histogram).dump()));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->limits, histogram.limits);
  EXPECT_EQ(read->counts, histogram.counts);
  EXPECT_EQ(read->count, 4);
  EXPECT_EQ(read->sum, 2.8);
  EXPECT_EQ(read->sum_of_squares, 6.28);
  EXPECT_EQ(read->smallest, 0.01);
  EXPECT_EQ(read->largest, 2.5);
}

TEST(Histogram, InvalidJsonGivesNullopt) {
  const Json whole = to_json({.limits = {1}, .counts = {1}, .count = 1, .sum = 1, .sum_of_squares = 1, .smallest = 1, .largest = 1});
  EXPECT_TRUE(parse_histogram(whole));
  for (const char* key : {"limits", "counts", "count", "sum", "sum_squares", "min", "max"}) {
    for (const Json& other : {Json("x"), Json(nullptr), Json::array(), Json({{"a", 1}}), Json::array({"x"}), Json::array({1, 2})}) {
      Json spoiled = whole;
      spoiled[key] = other;
      EXPECT_FALSE(parse_histogram(spoiled)) << key << " " << other;
    }
    Json without = whole;
    without.erase(key);
    EXPECT_FALSE(parse_histogram(without)) << key;
  }
  for (const Json& other : {Json(), Json(1), Json("x"), Json::array()}) EXPECT_FALSE(parse_histogram(other)) << other;
}

}  // namespace
}  // namespace keel
