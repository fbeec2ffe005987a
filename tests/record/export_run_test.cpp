#include "keel/record/export_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/record/run_data.h"
#include "tests/support/errors.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

using testing::AllOf, testing::HasSubstr;

constexpr const char* kRows =
    R"({"phase":"eval","step":0,"updates":0,"eval/accuracy":0.5,"time/clock":10.5})"
    "\n"
    R"({"phase":"rl","step":1,"updates":2,"reward/mean":0.25,"note":"text","time/clock":20.5})"
    "\n"
    R"({"phase":"eval","step":1,"updates":2,"eval/accuracy":0.75,"time/clock":21.5})"
    "\n";

TEST(ReadForExport, MergesAStepWithItsEvaluation) {
  const TestFolder folder;
  folder.write("metrics.jsonl", kRows);
  folder.write("used.json", R"({"run.seed": 3, "data.files": ["a"], "run.id": "0123abcd"})");
  const ExportedRun run = read_for_export(folder.path / "");
  EXPECT_EQ(run.name, folder.path.filename());
  EXPECT_EQ(run.id, "0123abcd");
  EXPECT_EQ(run.settings["data.files"], Json::array({"a"}));
  ASSERT_EQ(run.steps.size(), 2u);
  EXPECT_EQ(run.steps[1].phase, "rl");
  EXPECT_EQ(run.steps[1].time, 20.5);
  EXPECT_EQ(run.steps[1].values,
            (std::map<std::string, double, std::less<>>{
                {"updates", 2}, {"reward/mean", 0.25}, {"eval/accuracy", 0.75}, {"time/clock", 20.5}}));
}

TEST(ReadForExport, SelectsNamedMetricsAndRejectsUnknownOnes) {
  const TestFolder folder;
  folder.write("metrics.jsonl", kRows);
  const ExportedRun run = read_for_export(folder.path, {"reward/mean"});
  ASSERT_EQ(run.steps.size(), 1u);
  EXPECT_EQ(run.steps[0].values.size(), 2u);  // and the time
  EXPECT_THAT(error_of(2, [&] { read_for_export(folder.path, {"reward/maen"}); }),
              AllOf(HasSubstr("reward/maen"), HasSubstr("did you mean reward/mean?")));
}

TEST(ReadForExport, ReplacesAnIdThatIsNotAlphanumeric) {
  const TestFolder folder;
  folder.write("metrics.jsonl", kRows);
  folder.write("used.json", R"({"run.id": "../../x"})");
  const std::string id = read_for_export(folder.path).id;
  EXPECT_EQ(id.size(), 16u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(ExportRun, RejectsExistingTargets) {
  const TestFolder folder, made;
  folder.write("metrics.jsonl", kRows);
  const ExportedRun run = read_for_export(folder.path);
  const auto twice = [&](const auto& write, const std::filesystem::path& target) {
    write(run, target, false);
    EXPECT_THAT(error_of(2, [&] { write(run, target, false); }),
                AllOf(HasSubstr(target.string()), HasSubstr("--overwrite")));
    write(run, target, true);
  };
  twice(export_csv, made.path / "run.csv");
  twice(export_tensorboard, made.path / "tensorboard");
  made.write("tensorboard/events.out.tfevents.1.host", "another's");
  EXPECT_THAT(error_of(2, [&] { export_tensorboard(run, made.path / "tensorboard", true); }),
              AllOf(HasSubstr("events.out.tfevents.1.host"), HasSubstr("Choose another folder")));
}

}  // namespace
}  // namespace keel
