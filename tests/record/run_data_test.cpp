#include "keel/record/run_data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "tests/support/errors.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

/// A run folder with the files a test writes.
class RunDataTest : public testing::Test {
 protected:
  void write(const char* name, const std::string& text) { made_.write(name, text); }

  const TestFolder made_;
  const std::filesystem::path& folder_ = made_.path;
};

TEST_F(RunDataTest, ReadsMetricsSamplesAndConfiguration) {
  write("metrics.jsonl", R"({"phase":"rl","step":1,"updates":4,"reward/mean":0.25,"note":"text","list":[1]})"
                         "\n"
                         R"({"phase":"rl","step":2,"updates":8,"reward/mean":0.5})"
                         "\n");
  write(
      "samples.jsonl",
      R"({"phase":"rl","step":1,"prompt":"1+1","completion":"2","answer":{"x":[1,"b"]},"reward":1.0,"finish":"stop","tokens":["2","<end>"],)"
      R"("logp":[-0.5,null],"kept":[true,false],"divergence":[0.1,0.3],"threshold":[0.2,0.2]})"
      "\n");
  write("config.yaml", "run:\n  seed: 3\n");
  write("used.json",
        R"({"run.seed": 3, "data.files": ["a.jsonl", "b.jsonl"], "model.path": "m", "critic.whiten": true})");
  const RunData run = read_run(folder_ / "");
  EXPECT_EQ(run.name, folder_.filename().string());
  ASSERT_EQ(run.metrics.size(), 2u);
  EXPECT_EQ(run.metrics[1].step, 2);
  EXPECT_EQ(run.metrics[1].values.at("reward/mean"), 0.5);
  EXPECT_EQ(run.metrics[0].values.count("note"), 0u);
  ASSERT_EQ(run.samples.size(), 1u);
  EXPECT_EQ(run.samples[0].tokens, (std::vector<std::string>{"2", "<end>"}));
  EXPECT_EQ(run.samples[0].logp[0], -0.5);
  EXPECT_TRUE(std::isnan(run.samples[0].logp[1]));
  EXPECT_EQ(run.samples[0].kept, (std::vector<bool>{true, false}));
  EXPECT_TRUE(std::isnan(run.samples[0].advantage));
  EXPECT_EQ(run.config, "run:\n  seed: 3\n");
  EXPECT_EQ(run.samples[0].answer, R"({"x":[1,"b"]})");
  EXPECT_EQ(
      run.used,
      (std::map<std::string, std::string>{
          {"run.seed", "3"}, {"data.files", "a.jsonl, b.jsonl"}, {"model.path", "m"}, {"critic.whiten", "true"}}));
}

TEST_F(RunDataTest, RatesAreTotalTokensPerTotalTime) {
  // 100 tokens in 0.1 s, then 200 in 1.9 s: 300 in 2 s. The mean of the rates, 552.6, would be wrong.
  write("metrics.jsonl",
        R"({"phase":"rl","step":1,"throughput/rollout_tokens_per_s":1000,"time/rollout":0.1,)"
        R"("throughput/train_tokens_per_s":50,"time/train":2})"
        "\n"
        R"({"phase":"rl","step":2,"throughput/rollout_tokens_per_s":105.26315789473684,"time/rollout":1.9,)"
        R"("throughput/train_tokens_per_s":100,"time/train":2})"
        "\n");
  const RunSummary summary = summarize(read_run(folder_));
  EXPECT_NEAR(summary.rollout_tokens_per_s, 150, 1e-9);
  EXPECT_NEAR(summary.train_tokens_per_s, 75, 1e-9);
}

TEST_F(RunDataTest, IgnoresAnIncompleteLastLine) {
  write("metrics.jsonl", "{\"phase\":\"rl\",\"step\":1,\"reward/mean\":1}\n{\"phase\":\"rl\",\"step\":2,\"rew");
  EXPECT_EQ(read_run(folder_).metrics.size(), 1u);
}

TEST_F(RunDataTest, NamesFileAndLineOfAnInvalidLine) {
  for (const char* broken :
       {"{\"phase\":\"rl\",\"st\n{\"phase\":\"rl\",\"step\":3}\n", "{\"phase\":\"rl\",\"step\":NaN}\n"}) {
    write("metrics.jsonl", std::string("{\"phase\":\"rl\",\"step\":1}\n") + broken);
    EXPECT_THAT(error_of(3, [&] { read_run(folder_); }), HasSubstr("metrics.jsonl:2:")) << broken;
  }
}

TEST_F(RunDataTest, RejectsAFolderThatIsNotARun) {
  EXPECT_THAT(error_of(3, [&] { read_run(folder_); }), HasSubstr("metrics.jsonl"));
}

TEST_F(RunDataTest, KeepsEvenlySpacedSamplesWithFirstAndLast) {
  write("metrics.jsonl", "{\"phase\":\"rl\",\"step\":1}\n");
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "{\"phase\":\"rl\",\"step\":" + std::to_string(i) + "}\n";
  write("samples.jsonl", text);
  const std::vector<Sample> samples = read_run(folder_).samples;
  EXPECT_LE(samples.size(), kMaxSamples + 1);
  EXPECT_GE(samples.size(), kMaxSamples / 2);
  EXPECT_EQ(samples.front().step, 0);
  EXPECT_EQ(samples.back().step, 4999);
  for (size_t i = 1; i + 1 < samples.size(); ++i) {
    EXPECT_EQ(samples[i].step - samples[i - 1].step, samples[1].step - samples[0].step);
  }
}

MetricRow row(const char* phase, int64_t step, std::map<std::string, double, std::less<>> values) {
  return {phase, step, std::move(values)};
}

TEST(CountRlStepsFromOne, ShiftsEverythingButSft) {
  RunData run;
  run.metrics = {row("sft", 8, {}),
                 row("eval", 8, {{"sft/eval_loss", 1}}),
                 row("eval", 8, {{"eval/accuracy", 0.5}}),
                 row("rl", 9, {}),
                 row("rl", 10, {}),
                 row("eval", 10, {{"eval/accuracy", 0.6}})};
  for (const auto& [phase, step] : {std::pair("sft", 8), {"eval", 8}, {"rl", 10}}) {
    run.samples.emplace_back();
    run.samples.back().phase = phase, run.samples.back().step = step;
  }
  run.recorded.steps.emplace_back().step = 9;
  run.recorded.mismatch.largest.emplace_back().step = 9;
  run.recorded.rows.completions.emplace_back().step = 10;
  for (int times = 0; times < 2; ++times) {  // the second time it has no effect
    count_rl_steps_from_one(run);
    std::vector<int64_t> steps;
    for (const MetricRow& each : run.metrics) steps.push_back(each.step);
    for (const Sample& sample : run.samples) steps.push_back(sample.step);
    EXPECT_EQ(steps, (std::vector<int64_t>{8, 8, 0, 1, 2, 2, /*samples*/ 8, 0, 2}));
    EXPECT_EQ(run.recorded.steps[0].step, 1);
    EXPECT_EQ(run.recorded.mismatch.largest[0].step, 1);
    EXPECT_EQ(run.recorded.rows.completions[0].step, 2);
  }
}

TEST(MetricCurve, HasAGapForAMissingMetric) {
  RunData run;
  run.metrics = {row("rl", 1, {{"a", 5}}), row("eval", 1, {{"a", 9}}), row("rl", 2, {}), row("rl", 3, {{"a", 7}})};
  const std::vector<ChartPoint> curve = metric_curve(run, "rl", "a");
  ASSERT_EQ(curve.size(), 3u);
  EXPECT_EQ(curve[0].y, 5);
  EXPECT_TRUE(std::isnan(curve[1].y));
  EXPECT_EQ(curve[2].x, 3);
  EXPECT_TRUE(metric_curve(run, "rl", "b").empty());
}

TEST(Summarize, DistinguishesAccuracyFromMeanReward) {
  RunData run;
  run.metrics = {row("eval", 0, {{"eval/reward", -3}, {"eval/low", -4}}), row("rl", 1, {}),
                 row("eval", 1, {{"eval/accuracy", 0.5}})};
  const RunSummary summary = summarize(run);
  ASSERT_TRUE(summary.before && summary.after);
  EXPECT_FALSE(summary.before->is_accuracy);
  EXPECT_EQ(summary.before->mean, -3);
  EXPECT_EQ(summary.before->low, -4);
  EXPECT_TRUE(summary.after->is_accuracy);
}

TEST(Summarize, TakesTheLastEvaluationBeforeRlAsBeforeAndTheLastOfAllAsAfter) {
  RunData run;
  run.metrics = {
      row("eval", 0, {{"eval/accuracy", 0.1}}),
      row("sft", 1, {{"sft/loss", 2}, {"time/step", 1.5}}),
      row("eval", 1, {{"eval/accuracy", 0.4}, {"eval/low", 0.3}, {"eval/high", 0.5}, {"eval/count", 100}}),
      row("rl", 2, {{"reward/mean", 0.7}, {"trust_region/masked", 0.02}, {"time/step", 2}, {"time/rollout", 99}}),
      row("rl", 3, {{"reward/mean", 0.6}, {"trust_region/masked", 0.04}, {"time/step", 1}, {"time/checkpoint", 2}}),
      row("eval", 3, {{"eval/accuracy", 0.8}})};
  const RunSummary summary = summarize(run);
  ASSERT_TRUE(summary.before && summary.after);
  EXPECT_EQ(summary.before->mean, 0.4);
  EXPECT_EQ(summary.before->high, 0.5);
  EXPECT_EQ(summary.before->count, 100);
  EXPECT_EQ(summary.after->mean, 0.8);
  EXPECT_EQ(summary.after->low, 0.8);
  EXPECT_EQ(summary.evals.size(), 2u);
  EXPECT_EQ(summary.best_reward, 0.7);
  EXPECT_EQ(summary.best_reward_step, 2);
  EXPECT_DOUBLE_EQ(summary.last_reward, 0.65);
  EXPECT_DOUBLE_EQ(summary.masked, 0.03);
  EXPECT_DOUBLE_EQ(summary.seconds, 6.5);
  EXPECT_EQ(summary.rl_steps, 2);
  EXPECT_EQ(summary.sft_steps, 1);
}

TEST(Summarize, DistinguishesASingleEvaluationBeforeRlFromOneAfterIt) {
  RunData before, after;
  before.metrics = {row("eval", 0, {{"eval/accuracy", 0.3}}), row("rl", 1, {})};
  after.metrics = {row("rl", 1, {}), row("eval", 1, {{"eval/accuracy", 0.3}})};
  EXPECT_TRUE(summarize(before).before && !summarize(before).after);
  EXPECT_TRUE(!summarize(after).before && summarize(after).after);
  EXPECT_FALSE(summarize(RunData{}).after);
}

}  // namespace
}  // namespace keel
