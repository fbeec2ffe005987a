#include <gtest/gtest.h>

#include "keel/record/tools/csv.h"
#include "keel/record/tools/mlflow.h"

namespace keel {
namespace {

TEST(ExactNumber, IsTheShortestTextThatIsReadBackAsIt) {
  EXPECT_EQ(exact_number(0.1), "0.1");
  EXPECT_EQ(exact_number(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(exact_number(100000), "100000");
  EXPECT_EQ(exact_number(-7), "-7");
  EXPECT_EQ(exact_number(1e300), "1e+300");
  EXPECT_EQ(exact_number(5e-324), "5e-324");
}

TEST(CsvTable, HasARowPerStepAndQuotesWhatNeedsIt) {
  ExportedRun run;
  run.steps = {{.phase = "eval", .step = 0, .time = 1, .values = {{"eval/a,b/\"avg\"@1", 0.5}}},
               {.phase = "rl", .step = 1, .time = 2, .values = {{"loss", -0.25}}}};
  EXPECT_EQ(csv_table(run),
            "step,phase,\"eval/a,b/\"\"avg\"\"@1\",loss\r\n"
            "0,eval,0.5,\r\n"
            "1,rl,,-0.25\r\n");
}

TEST(MlflowNames, ArePathsThatStayInTheirFolder) {
  const auto names = mlflow_names({"reward/mean", "eval/pass@4", "../../etc/x", "/a", "a//b", "eval/größe%"});
  EXPECT_EQ(names.at("reward/mean"), "reward/mean");
  EXPECT_EQ(names.at("eval/pass@4"), "eval/pass_at_4");
  EXPECT_EQ(names.at("../../etc/x"), "__/__/etc/x");
  EXPECT_EQ(names.at("/a"), "_/a");
  EXPECT_EQ(names.at("a//b"), "a/_/b");
  EXPECT_EQ(names.at("eval/größe%"), "eval/gr____e_");
}

TEST(MlflowNames, AreNoOthersAndNoFoldersOfOthers) {
  const auto names = mlflow_names({"a", "a/b", "x?", "x!"});
  EXPECT_EQ(names.at("a"), "a_");
  EXPECT_EQ(names.at("a/b"), "a/b");
  EXPECT_EQ(names.at("x!"), "x_");
  EXPECT_EQ(names.at("x?"), "x__");
}

TEST(MlflowRun, HasALineOfTimeNumberAndStepForEachNumber) {
  ExportedRun run;
  run.name = "it's \"one\"";
  run.id = "12e4";
  run.settings = {{"run.seed", 3}, {"model.path", "a b"}};
  run.steps = {{.phase = "rl", .step = 1, .time = 1.5, .values = {{"loss", 0.25}, {kClockMetric, 1.5}}},
               {.phase = "rl", .step = 2, .time = 2, .values = {{"loss", 3}}}};
  const auto files = mlflow_run(run, "/store/a b");
  EXPECT_EQ(files.at("metrics/loss"), "1500 0.25 1\n2000 3 2\n");
  EXPECT_FALSE(files.contains("metrics/time/clock"));
  EXPECT_EQ(files.at("params/run.seed"), "3");
  EXPECT_EQ(files.at("params/model.path"), "a b");
  EXPECT_NE(files.at("meta.yaml").find("run_name: \"it's \\\"one\\\"\"\n"), std::string::npos);
  EXPECT_NE(files.at("meta.yaml").find("run_id: \"12e4\"\n"), std::string::npos);  // unquoted it were a number
  EXPECT_NE(files.at("meta.yaml").find("artifact_uri: \"file:///store/a%20b/artifacts\"\n"), std::string::npos);
}

}  // namespace
}  // namespace keel
