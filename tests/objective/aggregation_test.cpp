#include "keel/objective/aggregation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/errors.h"
#include "tests/support/goldens.h"

namespace keel {
namespace {

TEST(SequenceWeights, EqualTheGoldensAlsoWhereNothingIsValid) {
  int checked = 0;
  const Json goldens = golden("aggregations.json");
  for (const Json& row : goldens.at("cases")) {
    const auto lengths = row.at("lengths").get<std::vector<int64_t>>();
    const auto mask = row.at("mask").get<std::vector<int64_t>>();
    const std::vector<double> values = numbers(row.at("values"));
    std::vector<int64_t> valid;
    size_t begin = 0;
    for (const int64_t length : lengths) {
      valid.push_back(0);
      for (int64_t t = 0; t < length; ++t) valid.back() += mask.at(begin++);
    }
    for (const auto& [aggregation, want] : row.at("expected").items()) {
      SCOPED_TRACE(row.at("about").get<std::string>() + " " + aggregation);
      const std::vector<double> weights = sequence_weights(aggregation, valid, row.at("horizon"));
      ASSERT_EQ(weights.size(), lengths.size());
      double loss = 0, size = 0;
      size_t i = 0;
      for (size_t s = 0; s < lengths.size(); ++s) {
        EXPECT_TRUE(std::isfinite(weights[s]));
        for (int64_t t = 0; t < lengths[s]; ++t, ++i) {
          const double weight = mask[i] != 0 ? weights[s] : 0;
          EXPECT_NEAR(weight, want.at("weights").at(i).get<double>(), 1e-12 * weight);
          loss += weight * values[i];
          size += std::abs(weight * values[i]);
        }
      }
      EXPECT_NEAR(loss, want.at("loss").get<double>(), 1e-9 * size);
      ++checked;
    }
  }
  EXPECT_EQ(checked, 8 * 4);
}

TEST(SequenceWeights, RefuseAnUnknownWord) {
  const std::vector<int64_t> one{1};
  const std::string message = error_of(2, [&] { sequence_weights("mean", one, 1); });
  EXPECT_NE(message.find("\"mean\""), std::string::npos);
  EXPECT_NE(message.find("token_mean"), std::string::npos);
}

}  // namespace
}  // namespace keel
