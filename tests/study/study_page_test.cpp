#include <gmock/gmock.h>

#include "keel/study/study_tables.h"

namespace keel {
namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

TEST(StudyCurves, TitlesFitTheirPanels) {
  Study study;
  study.name = "titles";
  const std::vector<std::string> names = {"minimal_mask_recomputed", "a_name_that_is_much_longer_than_its_panel",
                                          "short"};
  std::vector<Outcome> outcomes;
  for (const std::string& name : names) {
    study.variants.push_back({name, {}});
    outcomes.push_back({name, 1, {{measure::kCollapsed, name == "short" ? 0 : 1}}, {0.5, 0.2, 0.1}});
  }
  const std::string svg = study_curves(study, outcomes);
  for (const std::string& name : names) EXPECT_EQ(count_of(svg, ">" + name + "</text>"), 1u) << name;
  // Panels are 260 wide and 208 high, 38 of them for titles; a bold letter is about 7 wide.
  EXPECT_THAT(svg, testing::HasSubstr("viewBox=\"0 0 780 208\""));
  EXPECT_THAT(svg,
              testing::HasSubstr(
                  "<text x=\"56\" y=\"16\" fill=\"#768390\" font-weight=\"600\">minimal_mask_recomputed</text>"
                  "<text x=\"56\" y=\"32\" fill=\"#768390\">1 of 1 collapsed</text><g transform=\"translate(0 38)\">"));
  EXPECT_EQ(count_of(svg, "textLength="), 1u);
  EXPECT_THAT(svg, testing::HasSubstr("textLength=\"196\" lengthAdjust=\"spacingAndGlyphs\">a_name_that_is_much"));
  EXPECT_EQ(count_of(svg, " collapsed</text>"), 2u);
}

TEST(ComparisonTable, TestsCollapsesByPairsAndLeavesOutEqualDifferences) {
  Study study;
  study.options.comparisons = {"a vs b"};
  std::vector<Outcome> outcomes;
  // Four seeds: a collapses in two of them, b in all. Early rewards differ by 1, -1, 1, 1, final ones by 1 each.
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const double collapsed = seed < 2 ? 1 : 0, early = seed == 1 ? 1 : 3;
    outcomes.push_back({"a", seed, {{measure::kCollapsed, collapsed}, {measure::kEarly, early}, {measure::kFinal, 3}}});
    outcomes.push_back({"b", seed, {{measure::kCollapsed, 1}, {measure::kEarly, 2}, {measure::kFinal, 2}}});
  }
  // McNemar: 2 x 1/4 = 0.5. Early: mean 0.5, deviation 1, t = 1 with 3 degrees of freedom, p = 0.391. Holm's correction
  // of the two: 0.391 x 2 = 0.782, and 0.5 is raised to it.
  EXPECT_EQ(comparison_table(study, outcomes),
            "| comparison | measure   | seeds | difference            | p    | p, corrected |\n"
            "| ---------- | --------- | ----- | --------------------- | ---- | ------------ |\n"
            "| a vs b     | collapsed | 4     | 2 vs 4 (alone 0 vs 2) | 0.5  | 0.78         |\n"
            "| a vs b     | early     | 4     | 0.500 +- 0.500        | 0.39 | 0.78         |\n"
            "| a vs b     | final     | 4     | 1.000 +- 0.000        | -    | -            |\n");
  outcomes.resize(2);  // one seed
  EXPECT_EQ(comparison_table(study, outcomes), "");
}

}  // namespace
}  // namespace keel
