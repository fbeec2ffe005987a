#include "keel/objective/methods.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "keel/core/options.h"
#include "keel/objective/advantage.h"
#include "keel/objective/aggregation.h"
#include "tests/support/errors.h"

namespace keel {
namespace {

using Field = std::optional<double> ObjectiveOptions::*;

/// Which option sets which parameter of a region.
const std::map<std::string, std::pair<std::string, Field>> kOptionOf{
    {"low", {"delta_low", &ObjectiveOptions::delta_low}},
    {"high", {"delta_high", &ObjectiveOptions::delta_high}},
    {"ratio_cap", {"ratio_cap", &ObjectiveOptions::ratio_cap}}};

std::map<std::string, double> parameter_map(const TrustRegion& region) {
  std::map<std::string, double> result;
  for (const auto& [name, value] : parameters(region)) result[name] = value;
  return result;
}

TEST(Methods, HaveUniqueNamesAndSayWhatTheyAre) {
  std::set<std::string> names;
  for (const Method& row : methods()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " stands twice in the table";
    for (const std::string& text : {row.name, row.sentence, row.equation, row.source})
      EXPECT_FALSE(text.empty()) << row.name;
  }
  for (const char* name : {"dppo_tv", "dppo_kl", "grpo", "grpo_clip_higher", "pg_is"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(Methods, UseAdvantagesAndAggregationsThatExist) {
  const std::vector<double> rewards{0, 1};
  const std::vector<int64_t> groups{0, 0}, valid{2, 3};
  for (const Method& row : methods()) {
    EXPECT_EQ(advantages(row.advantage, rewards, groups).size(), 2u) << row.name;
    EXPECT_EQ(sequence_weights(row.aggregation, valid, 8).size(), 2u) << row.name;
  }
}

TEST(Methods, HaveThePapersThresholds) {
  const auto of = [](const char* name) { return parameter_map(make_objective({.method = name}, 1).method.region); };
  EXPECT_EQ(of("dppo_tv").at("low"), 0.15);  // arXiv 2602.04879, appendix C
  EXPECT_EQ(of("dppo_tv").at("high"), 0.15);
  EXPECT_EQ(of("dppo_kl").at("low"), 0.05);
  EXPECT_EQ(of("dppo_kl").at("high"), 0.05);
  EXPECT_EQ(of("grpo").at("high"), 0.2);  // arXiv 1707.06347, table 1
  EXPECT_EQ(of("grpo_clip_higher").at("low"), 0.2);
  EXPECT_EQ(of("grpo_clip_higher").at("high"), 0.28);  // arXiv 2503.14476, section 4.1
}

TEST(MakeObjective, SetsEveryParameterOfEveryRowAndLeavesTheOthers) {
  for (const Method& row : methods()) {
    const std::map<std::string, double> defaults = parameter_map(row.region);
    for (const auto& [name, value] : defaults) {
      ASSERT_TRUE(kOptionOf.contains(name)) << row.name << ": no option sets \"" << name << "\"";
      ObjectiveOptions options{.method = row.name};
      options.*kOptionOf.at(name).second = 0.3125;
      std::map<std::string, double> want = defaults;
      want[name] = 0.3125;
      EXPECT_EQ(parameter_map(make_objective(options, 1).method.region), want) << row.name << "." << name;
    }
  }
}

TEST(MakeObjective, RefusesAParameterThatTheMethodDoesNotHave) {
  int refused = 0;
  for (const Method& row : methods()) {
    for (const auto& [name, option] : kOptionOf) {
      if (parameter_map(row.region).contains(name)) continue;
      ObjectiveOptions options{.method = row.name};
      options.*option.second = 0.5;
      const std::string message = error_of(2, [&] { make_objective(options, 1); });
      EXPECT_NE(message.find("objective." + option.first), std::string::npos) << message;
      EXPECT_NE(message.find(row.name), std::string::npos) << message;
      ++refused;
    }
  }
  EXPECT_GE(refused, 4);  // grpo and grpo_clip_higher have no cap, pg_is has no thresholds
}

TEST(MakeObjective, LetsDeltaSetBothThresholdsAndANarrowerKeyWin) {
  const Objective both = make_objective({.method = "dppo_tv", .delta = 0.5}, 1);
  EXPECT_EQ(parameter_map(both.method.region).at("low"), 0.5);
  EXPECT_EQ(parameter_map(both.method.region).at("high"), 0.5);
  const Objective one = make_objective({.method = "dppo_tv", .delta = 0.5, .delta_high = 0.25}, 1);
  EXPECT_EQ(parameter_map(one.method.region).at("low"), 0.5);
  EXPECT_EQ(parameter_map(one.method.region).at("high"), 0.25);
}

TEST(MakeObjective, TakesTheRowsWordsUnlessToldOtherwise) {
  const Objective plain = make_objective({.method = "grpo"}, 96);
  EXPECT_EQ(plain.method.advantage, "grpo");
  EXPECT_EQ(plain.method.aggregation, "seq_mean_token_mean");
  EXPECT_EQ(plain.horizon, 96);
  ObjectiveOptions options{.method = "grpo"};
  options.advantage = "group_mean";
  options.aggregation = "token_mean";
  options.horizon = 12;
  const Objective changed = make_objective(options, 96);
  EXPECT_EQ(changed.method.advantage, "group_mean");
  EXPECT_EQ(changed.method.aggregation, "token_mean");
  EXPECT_EQ(changed.horizon, 12);
}

TEST(MakeObjective, RefusesAnUnknownMethod) {
  EXPECT_NE(error_of(2, [] { make_objective({.method = "dpo"}, 1); }).find("\"dpo\""), std::string::npos);
}

TEST(ObjectiveOptions, OfferEveryMethodOfTheTable) {
  ObjectiveOptions options;
  OptionTable table;
  table.section("objective", "", options);
  for (const Method& row : methods()) EXPECT_NE(table.help().find(row.name), std::string::npos) << row.name;
  table.check_defaults();
}

}  // namespace
}  // namespace keel
