// The pages of a report other than the overview; tests/browser/report_test.py tests them in a browser.
#include <gtest/gtest.h>

#include <cmath>

#include "keel/record/report/report.h"
#include "tests/record/occurrences.h"

namespace keel {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

RunData run_of_steps(const std::string& name, int steps) {
  RunData run;
  run.name = name;
  run.used = {{"run.seed", "1"}, {"objective.method", "dppo_tv"}};
  for (int step = 1; step <= steps; ++step)
    run.metrics.push_back(
        {"rl", step, {{"reward/mean", 0.5}, {"trust_region/masked", 0.1}, {"mismatch/abs_prob_mean", 1e-6}}});
  return run;
}

/// Two tokens of a completion, one of them blocked.
RecordedTokens two_tokens() {
  RecordedTokens tokens;
  tokens.was_read = true;
  tokens.tokens = 2;
  tokens.blocked = tokens.outside = 1;
  tokens.completions = 4;
  tokens.steps = {{3, 2, "dppo_tv", {{"low", 0.15}, {"high", 0.15}}, true, {TokenCounts{2, 1, 1}, TokenCounts{}}}};
  tokens.by_update = {tokens.steps[0].counts};
  tokens.thresholds = {0.15};
  tokens.divergences.add(0.01);
  tokens.divergences.add(0.3, true);
  tokens.most_blocked[0] = {{"<b>so", 4, 1, 0.25, std::nan("")}};
  tokens.rows.completions = {{3, 0, 1, 10, 1.0, 0, 2, 2}};
  tokens.rows.columns = {{"log_mu", {-1, -2}}};
  tokens.rows.text = {0, 0};
  tokens.rows.kept = {true, false};
  tokens.rows.outside = {false, true};
  tokens.rows.texts = {"</script>"};
  return tokens;
}

TEST(Pages, ExplainHowToRecordTokens) {
  RunData run = run_of_steps("quick", 3);
  EXPECT_TRUE(contains(render_report({run}), "record.tokens=sample</code>"));
  run.used["record.tokens"] = "sample";  // not read during the run
  EXPECT_TRUE(contains(render_report({run}), "written during the run"));
  run.recorded.was_read = true;
  run.recorded.damage = {"tokens/step-00000003.parquet: is <b>cut off"};
  const std::string damaged = render_report({run});
  EXPECT_TRUE(contains(damaged, "Not read: tokens/step-00000003.parquet: is &lt;b&gt;cut off"));
  EXPECT_FALSE(contains(damaged, "has no token records"));
}

TEST(Pages, ShowBlockedTokens) {
  RunData run = run_of_steps("quick", 3);
  run.recorded = two_tokens();
  const std::string html = render_report({run});
  EXPECT_TRUE(contains(
      html,
      "<code data-token=\"&lt;b&gt;so\">&lt;b&gt;so</code></th><td>1</td><td>25.0 %</td><td>0.25</td><td>–</td>"));
  EXPECT_TRUE(contains(html, "None is blocked."));  // negative advantage
  EXPECT_TRUE(contains(html, "1 completion of 4, selected by their ids"));
  EXPECT_TRUE(contains(html, "threshold 0.15"));
  EXPECT_TRUE(contains(html, "Blocked where an update leads away from μ and |π − μ| is above the threshold."));
  EXPECT_EQ(occurrences(html, "</script>"), 2u);  // the data and the script, but no token text
}

TEST(Pages, OfASoftMethodShowTokensOutsideTheRegion) {
  RunData run = run_of_steps("quick", 3);
  run.recorded = two_tokens();
  run.recorded.blocked = 0;
  run.recorded.most_outside[0] = {{"so", 4, 2, 0.25, 1}};
  const std::string html = render_report({run});
  EXPECT_TRUE(contains(html, "Which tokens are outside the region"));
  EXPECT_TRUE(contains(html, "<td>2</td><td>50.0 %</td>"));
}

TEST(Pages, ShowTheMetricThatLeftItsBandWithSamples) {
  RunData run = run_of_steps("quick", 60);
  for (size_t i = 39; i < run.metrics.size(); ++i) run.metrics[i].values["reward/mean"] = 0.1;
  for (const int step : {1, 40, 60}) {
    Sample sample;
    sample.phase = "rl";
    sample.step = step;
    sample.completion = "written at " + std::to_string(step);
    run.samples.push_back(sample);
  }
  const std::string html = render_report({run});
  EXPECT_EQ(occurrences(html, "Reward left its band first, at step 40: 0.1, band at least 0.25."),
            2u);  // and on the overview
  EXPECT_GT(occurrences(html, "written at 40"), 1u);
  EXPECT_TRUE(contains(render_report({run_of_steps("quick", 60)}), "No metric left its band."));
  EXPECT_TRUE(contains(render_report({run_of_steps("quick", 7)}), "Too few RL steps for a verdict: 7 of 20."));
}

TEST(Pages, ShowAFallOfTheHeldOutScoreAsAWarning) {
  for (const int steps : {40, 7}) {
    RunData run = run_of_steps("quick", steps);
    const auto evaluation = [](int step, double mean, double low, double high) {
      return MetricRow{"eval", step, {{"eval/accuracy", mean}, {"eval/low", low}, {"eval/high", high}}};
    };
    run.metrics.insert(run.metrics.begin(), evaluation(0, 0.45, 0.41, 0.49));
    run.metrics.push_back(evaluation(steps, 0.31, 0.27, 0.35));
    const std::string html = render_report({run});
    const std::string verdict =
        "<p class=\"verdict bad\">Held-out accuracy fell from 45.0 % [41.0 %, 49.0 %] at step 0 to 31.0 % [27.0 %, "
        "35.0 %] at step " +
        std::to_string(steps) + ". ";
    EXPECT_EQ(occurrences(html, verdict), 2u);  // and on the overview
    EXPECT_FALSE(contains(html, "<p class=\"verdict\">"));
  }
}

TEST(Pages, DrawABandForSeeds) {
  RunData first = run_of_steps("grpo-1", 3), second = run_of_steps("grpo-2", 3), other = run_of_steps("drpo-1", 3);
  second.used["run.seed"] = "2";
  other.used["objective.method"] = "drpo";
  const std::string html = render_report({first, second, other});
  EXPECT_TRUE(contains(html, "data-name=\"grpo (2 seeds)\""));
  EXPECT_TRUE(contains(html, "data-name=\"drpo-1\""));
  EXPECT_TRUE(contains(html, "a band from the minimum to the maximum"));
  EXPECT_FALSE(contains(render_report({first, other}), "a band from the minimum"));
}

}  // namespace
}  // namespace keel
