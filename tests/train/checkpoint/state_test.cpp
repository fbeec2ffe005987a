#include "keel/train/checkpoint/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/errors.h"

namespace keel {
namespace {

/// Updates the best evaluation with a row of this step.
bool note(TrainState& state, int64_t step, const Json& row, const std::string& metric = "eval/accuracy") {
  state.rl.steps = step;
  return state.update_best(row, metric);
}

TEST(BestEvaluation, IsTheFirstOfEqualMaxima) {
  TrainState state;
  EXPECT_TRUE(note(state, 5, {{"eval/accuracy", 0.25}}));
  EXPECT_FALSE(note(state, 10, {{"eval/accuracy", 0.125}}));
  EXPECT_TRUE(note(state, 15, {{"eval/accuracy", 0.5}}));
  EXPECT_FALSE(note(state, 20, {{"eval/accuracy", 0.5}}));
  EXPECT_EQ(state.best.value().step, 15);
  EXPECT_EQ(state.best->value, 0.5);
}

TEST(BestEvaluation, IgnoresRowsWithoutTheMetric) {
  TrainState state;
  EXPECT_FALSE(note(state, 1, {{"eval/count", 8}}));  // no completion has a reward
  EXPECT_FALSE(state.best);
  EXPECT_FALSE(note(state, 2, {{"eval/reward", std::numeric_limits<double>::quiet_NaN()}}, "eval/reward"));
  EXPECT_TRUE(note(state, 3, {{"eval/reward", -2.5}}, "eval/reward"));  // rewards may be negative
  EXPECT_EQ(state.best.value().step, 3);
}

TEST(BestEvaluation, UsesTheConfiguredMetric) {
  TrainState state;
  EXPECT_TRUE(note(state, 1, {{"eval/accuracy", 0.9}, {"eval/pass@4", 0.5}}, "eval/pass@4"));
  EXPECT_FALSE(note(state, 2, {{"eval/accuracy", 1.0}, {"eval/pass@4", 0.25}}, "eval/pass@4"));
  // A run resumed with another metric starts without a best one.
  EXPECT_TRUE(note(state, 3, {{"eval/accuracy", 0.1}, {"eval/pass@4", 0.0}}, "eval/accuracy"));
  EXPECT_FALSE(note(state, 4, {{"eval/accuracy", 0.5}}, "eval/pass@4"));  // too few completions have a reward
  EXPECT_EQ(state.best.value().step, 3);
}

TEST(TrainState, RestoresTheBestEvaluation) {
  TrainState state;
  note(state, 7, {{"eval/reward", 0.1 + 0.2}}, "eval/reward");
  const TrainState back = state_from_json(to_json(state), "state.json");
  EXPECT_FALSE(TrainState(back).update_best({{"eval/reward", 0.1 + 0.2}}, "eval/reward"));
  EXPECT_EQ(back.best.value().step, 7);
}

TEST(TrainState, RefusesMissingFields) {
  const Json whole = to_json(TrainState{});
  for (const char* none : {"best_step", "last_evaluation", "loss_average", "data", "delta_low", "base_checksum"})
    EXPECT_TRUE(whole.at(none).is_null()) << none;
  for (const auto& [name, value] : whole.items()) {
    Json json = whole;
    json.erase(name);
    EXPECT_THAT(error_of(3, [&] { state_from_json(json, "state.json"); }),
                AllOf(HasSubstr("state.json"), HasSubstr(name), HasSubstr("another version")));
  }
}

TEST(TrainState, RefusesInvalidValues) {
  TrainState state{.phase = Phase::kRl, .best = BestEvaluation{}, .sft = {.steps = 6}, .rl = {.steps = 10}};
  const Json sound = Json::parse(to_json(state).dump());
  EXPECT_EQ(state_from_json(sound, "state.json").rl.steps, 10);
  const struct {
    const char *name, *value, *expected;
  } cases[] = {{"rl_steps", "-1", "a count"},
               {"rl_steps", "5", "their sum"},
               {"step", "-1", "a count"},
               {"step", "3", "their sum"},
               {"step", "9223372036854775807", "sum"},
               {"updates", "-3", "a count"},
               {"prompts", "9223372036854775808", "a count"},
               {"skipped", "1.5", "a count"},
               {"best_step", "-5", "a count"},
               {"best_step", "17", "later than step, which is 16"},
               {"best_step", "18446744073709551615", "a count"},
               {"last_evaluation", "17", "later than step"},
               {"best_metric", "5", "a text"},
               {"best_value", "null", "best_value is null"},
               {"delta_low", "\"x\"", "a number"},
               {"noisy", "0", "true or false"},
               {"phase", "7", "unknown phase"},
               {"base_checksum", "4294967296", "a count"}};
  for (const auto& [name, value, expected] : cases) {
    Json json = sound;
    json[name] = Json::parse(value);
    EXPECT_THAT(
        error_of(3, [&] { state_from_json(json, "state.json"); }),
        AllOf(HasSubstr("state.json: "), HasSubstr(name), HasSubstr(expected), Not(HasSubstr("json.exception"))))
        << name << " " << value;
  }
  Json missing = sound;
  missing.erase("step");
  EXPECT_THAT(error_of(3, [&] { state_from_json(missing, "state.json"); }), HasSubstr("state.json: step is missing"));
}

}  // namespace
}  // namespace keel
