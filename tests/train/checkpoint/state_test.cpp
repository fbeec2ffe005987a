#include "keel/train/checkpoint/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/errors.h"

namespace keel {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Notes a row as of this step.
bool note(TrainState& state, int64_t step, const Json& row, const std::string& metric = "auto") {
  state.step = step;
  return state.note_evaluation(row, metric);
}

TEST(TheBestEvaluation, IsTheFirstOfThoseWithTheLargestMean) {
  TrainState state;
  EXPECT_TRUE(note(state, 5, {{"eval/accuracy", 0.25}}));
  EXPECT_FALSE(note(state, 10, {{"eval/accuracy", 0.125}}));
  EXPECT_TRUE(note(state, 15, {{"eval/accuracy", 0.5}}));
  EXPECT_FALSE(note(state, 20, {{"eval/accuracy", 0.5}}));
  EXPECT_EQ(state.best_step, 15);
  EXPECT_EQ(state.best_value, 0.5);
}

TEST(TheBestEvaluation, IsNeverOneThatSaysNothing) {
  TrainState state;
  EXPECT_FALSE(note(state, 1, {{"eval/count", 8}}));  // nothing was judged
  EXPECT_EQ(state.best_step, -1);
  EXPECT_FALSE(note(state, 2, {{"eval/reward", std::numeric_limits<double>::quiet_NaN()}}));
  EXPECT_TRUE(note(state, 3, {{"eval/reward", -2.5}}));  // a reward may be below 0
  EXPECT_EQ(state.best_step, 3);
}

TEST(TheBestEvaluation, IsByTheMetricThatIsNamed) {
  TrainState state;
  EXPECT_TRUE(note(state, 1, {{"eval/accuracy", 0.9}, {"eval/pass@4", 0.5}}, "eval/pass@4"));
  EXPECT_FALSE(note(state, 2, {{"eval/accuracy", 1.0}, {"eval/pass@4", 0.25}}, "eval/pass@4"));
  // A run that is resumed with another one begins to look anew.
  EXPECT_TRUE(note(state, 3, {{"eval/accuracy", 0.1}, {"eval/pass@4", 0.0}}, "eval/accuracy"));
  EXPECT_THAT(error_of(2, [&] { note(state, 4, {{"eval/accuracy", 0.5}, {"eval/count", 8}}, "eval/maj@4"); }),
              AllOf(HasSubstr("checkpoint.best_metric is eval/maj@4"), testing::EndsWith("it has eval/accuracy")));
  EXPECT_EQ(state.best_step, 3);
}

TEST(TheState, KnowsTheBestEvaluationWhenItIsReadBack) {
  TrainState state;
  note(state, 7, {{"eval/reward", 0.1 + 0.2}});
  const TrainState back = state_from_json(to_json(state), "state.json");
  EXPECT_FALSE(TrainState(back).note_evaluation({{"eval/reward", 0.1 + 0.2}}, "auto"));
  EXPECT_EQ(back.best_step, 7);
}

TEST(TheState, IsReadWholeOrNotAtAll) {
  const Json whole = to_json(TrainState{});
  for (const auto& [name, value] : whole.items()) {
    Json json = whole;
    json.erase(name);
    EXPECT_THAT(error_of(3, [&] { state_from_json(json, "state.json"); }),
                AllOf(HasSubstr("state.json"), HasSubstr(name), HasSubstr("another version")));
  }
}

}  // namespace
}  // namespace keel
