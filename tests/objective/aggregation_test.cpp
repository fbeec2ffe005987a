#include "keel/objective/aggregation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/goldens.h"

namespace keel {
namespace {

/// A case of aggregations.json.
struct GoldenAggregation {
  explicit GoldenAggregation(const Json& row)
      : about(row.at("about").get<std::string>()),
        lengths(row.at("lengths").get<std::vector<int64_t>>()),
        mask(row.at("mask").get<std::vector<uint8_t>>()),
        values(numbers(row.at("values"))),
        horizon(row.at("horizon").get<double>()) {}

  std::string about;
  std::vector<int64_t> lengths;
  std::vector<uint8_t> mask;
  std::vector<double> values;
  double horizon;
};

void expect_golden(const Aggregate& got, const GoldenAggregation& given, const Json& want) {
  const std::vector<double> weights = numbers(want.at("weights"));
  ASSERT_EQ(got.weights.size(), weights.size());
  double size = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(got.weights[i], weights[i], 1e-12 * weights[i]) << i;
    if (given.mask[i] != 0) size += std::abs(weights[i] * given.values[i]);
  }
  EXPECT_NEAR(got.loss, want.at("loss").get<double>(), 1e-9 * size);
}

TEST(Aggregations, MatchTheGoldensAlsoWithoutValidTokens) {
  int checked = 0;
  const Json goldens = golden("aggregations.json");
  for (const Json& row : goldens.at("cases")) {
    const GoldenAggregation given(row);
    for (const auto& [kind, want] : row.at("expected").items()) {
      SCOPED_TRACE(given.about + " " + kind);
      expect_golden(aggregate(kind, given.values, given.mask, given.lengths, given.horizon), given, want);
      ++checked;
    }
  }
  EXPECT_EQ(checked, 8 * 4);
}

TEST(Aggregations, DoNotDependOnMaskedValues) {
  int garbage = 0;
  const Json goldens = golden("aggregations.json");
  for (const Json& row : goldens.at("cases")) {
    GoldenAggregation given(row);
    for (size_t i = 0; i < given.values.size(); ++i) {
      if (given.mask[i] != 0) continue;
      given.values[i] = i % 2 == 0 ? std::numeric_limits<double>::quiet_NaN() : 1e300;
      ++garbage;
    }
    for (const auto& [kind, want] : row.at("expected").items()) {
      SCOPED_TRACE(given.about + " " + kind);
      expect_golden(aggregate(kind, given.values, given.mask, given.lengths, given.horizon), given, want);
    }
  }
  EXPECT_GT(garbage, 10);
}

TEST(SequenceWeights, MatchTheGoldenWeightsOfValidTokens) {
  int checked = 0;
  const Json goldens = golden("aggregations.json");
  for (const Json& row : goldens.at("cases")) {
    const GoldenAggregation given(row);
    for (const auto& [kind, want] : row.at("expected").items()) {
      SCOPED_TRACE(given.about + " " + kind);
      const std::vector<double> weights =
          sequence_weights(kind, count_valid_tokens(given.lengths, given.mask), given.horizon);
      ASSERT_EQ(weights.size(), given.lengths.size());
      for_each_sequence(given.lengths, [&, &wanted = want](size_t s, size_t begin, size_t end) {
        EXPECT_TRUE(std::isfinite(weights[s]));
        for (size_t i = begin; i < end; ++i) {
          if (given.mask[i] == 0) continue;
          EXPECT_NEAR(weights[s], wanted.at("weights").at(i).get<double>(), 1e-12 * weights[s]);
          ++checked;
        }
      });
    }
  }
  EXPECT_EQ(checked, 4 * 25);
}

// Two prompts with valid tokens: one with 2 + 6 tokens, one with 4; the third has none.
TEST(SequenceWeights, OfThePromptMeanDivideByTheTokensOfThePrompt) {
  const std::vector<double> weights = sequence_weights("prompt_mean", std::vector<int64_t>{2, 4, 6, 0}, 1,
                                                       std::vector<int64_t>{7, 3, 7, 5});
  EXPECT_EQ(weights, (std::vector<double>{1.0 / 16, 1.0 / 8, 1.0 / 16, 0}));
  EXPECT_NE(error_of(2, [] { sequence_weights("prompt_mean", std::vector<int64_t>{1}, 1); }).find("0 groups"),
            std::string::npos);
}

TEST(SequenceWeights, RejectAnUnknownKind) {
  const std::vector<int64_t> one{1};
  const std::string message = error_of(2, [&] { sequence_weights("mean", one, 1); });
  EXPECT_THAT(message, HasSubstr("\"mean\""));
  EXPECT_THAT(message, HasSubstr("token_mean"));
  EXPECT_EQ(error_of(2, [&] { sequence_weights("mean", {}, 1); }), message);  // also fails without tokens
}

TEST(Aggregations, RejectInconsistentArrays) {
  const std::vector<double> values{1, 2, 3};
  const std::vector<uint8_t> mask{1, 1, 1}, short_mask{1, 1};
  const std::vector<int64_t> lengths{2, 1}, too_long{2, 2}, negative{4, -1};
  EXPECT_THAT(error_of(70, [&] { aggregate("token_mean", values, short_mask, lengths, 1); }), HasSubstr("3 values"));
  EXPECT_THAT(error_of(70, [&] { aggregate("token_mean", values, mask, too_long, 1); }), HasSubstr("4 tokens"));
  EXPECT_THAT(error_of(70, [&] { aggregate("token_mean", values, mask, negative, 1); }), HasSubstr("-1 tokens"));
}

}  // namespace
}  // namespace keel
