#include "keel/core/files/json_file.h"

#include <sys/stat.h>

#include "tests/core/files/file_test.h"

namespace keel {
namespace {

using JsonIfAnyTest = FileTest;

TEST_F(JsonIfAnyTest, ReturnsAnEmptyObjectWithoutAJsonObject) {
  put(at("text"), "{");
  put(at("list"), "[1]");
  create_directories(at("folder"));
  std::filesystem::create_symlink("circle", at("circle"));
  for (const char* name : {"missing", "text", "list", "folder", "circle"})
    EXPECT_EQ(json_if_any(at(name)), Json::object()) << name;
  put(at("object"), R"({"run.id": "0123"})");
  EXPECT_EQ(json_if_any(at("object")).at("run.id"), "0123");
}

TEST_F(JsonIfAnyTest, AnUnreadableFileIsAnError) {
  put(at("used.json"), R"({"run.id": "0123"})");
  ASSERT_EQ(::chmod(at("used.json").c_str(), 0), 0);
  const std::string refused = in_child([&] {
    become_ordinary_user();
    return error_of([&] { json_if_any(at("used.json")); });
  });
  expect_error(refused, ExitCode::kBadInput, {at("used.json").string(), "Permission denied"});
  ASSERT_EQ(::mkfifo(at("manifest.json").c_str(), 0666), 0);
  expect_error(error_of([&] { json_if_any(at("manifest.json")); }), ExitCode::kBadInput,
               {at("manifest.json").string(), "a pipe"});
}

}  // namespace
}  // namespace keel
