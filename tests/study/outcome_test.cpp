#include "keel/study/outcome.h"

#include <gtest/gtest.h>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

std::vector<double> rewards(std::initializer_list<std::pair<int, double>> parts) {
  std::vector<double> result;
  for (const auto& [count, value] : parts) result.insert(result.end(), static_cast<size_t>(count), value);
  return result;
}

TEST(Collapse, IsALastingFallBelowHalfOfTheBest) {
  EXPECT_FALSE(has_collapsed(rewards({{30, 0.3}, {30, 0.8}}), 20));
  EXPECT_TRUE(has_collapsed(rewards({{30, 0.8}, {30, 0.3}}), 20));
  EXPECT_FALSE(has_collapsed(rewards({{30, 0.8}, {30, 0.41}}), 20));            // above half
  EXPECT_FALSE(has_collapsed(rewards({{30, 0.8}, {15, 0.1}, {15, 0.8}}), 20));  // it recovered
  EXPECT_FALSE(has_collapsed(rewards({{42, 0.8}, {18, 0.1}}), 20));             // too short before the end
  EXPECT_FALSE(has_collapsed(rewards({{60, 0}}), 20));                          // it was never above 0
  EXPECT_FALSE(has_collapsed(rewards({{4, 0.8}, {1, 0}}), 20));                 // shorter than the window
}

TEST(Outcome, SummarisesLastFirstAndBestSteps) {
  TestFolder folder;
  std::string rows = R"({"phase":"eval","step":0,"eval/accuracy":0.25,"eval/low":0.2,"eval/high":0.3,"eval/count":10})"
                     "\n";
  for (int step = 1; step <= 12; ++step)
    rows += R"({"phase":"rl","step":)" + std::to_string(step) + R"(,"reward/mean":)" + std::to_string(step) +
            R"(,"trust_region/masked":)" + (step > 8 ? "0.5" : "0") + "}\n";
  rows += R"({"phase":"eval","step":12,"eval/accuracy":0.75,"eval/low":0.7,"eval/high":0.8,"eval/count":10})"
          "\n";
  write_atomically(folder.path / "metrics.jsonl", rows);
  const Outcome outcome = measure_run(folder.path, 20, {"trust_region/masked", "not/there"});
  EXPECT_DOUBLE_EQ(outcome.measures.at(measure::kFinal), (9 + 10 + 11 + 12) / 4.0);  // a third of 12
  EXPECT_DOUBLE_EQ(outcome.measures.at(measure::kEarly), 2.5);
  EXPECT_DOUBLE_EQ(outcome.measures.at(measure::kBest), 10);
  EXPECT_EQ(outcome.measures.at(measure::kCollapsed), 0);
  EXPECT_EQ(outcome.measures.at(measure::kBefore), 0.25);
  EXPECT_EQ(outcome.measures.at(measure::kAfter), 0.75);
  EXPECT_EQ(outcome.measures.at("trust_region/masked"), 0.5);
  EXPECT_FALSE(outcome.measures.contains("not/there"));
}

TEST(OutcomeTable, SurvivesTheRoundTrip) {
  TestFolder folder;
  const std::vector<Outcome> written = {{"a", 3, {{"final", 0.1}, {"best", 1e-9}}}, {"b", 4, {{"final", 2}}}};
  const std::filesystem::path file = folder.path / "runs.csv";
  write_atomically(file, outcomes_csv(written));
  const std::vector<Outcome> read = read_outcomes_csv(file);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].measures, written[0].measures);
  EXPECT_EQ(read[1].measures, written[1].measures);
  EXPECT_EQ(read[1].variant, "b");
  EXPECT_EQ(read[1].seed, 4u);
}

TEST(OutcomeTable, InvalidInputIsAnErrorWithItsLine) {
  TestFolder folder;
  const std::filesystem::path file = folder.path / "runs.csv";
  for (const char* text : {"", "a,b,c\n", "variant,seed,final\nx,1\n", "variant,seed,final\nx,1,nan\n",
                           "variant,seed,final\nx,-1,2\n", "variant,seed,final\nx,1,2z\n"}) {
    SCOPED_TRACE(text);
    write_atomically(file, text);
    EXPECT_THROW(read_outcomes_csv(file), Error);
  }
}

}  // namespace
}  // namespace keel
