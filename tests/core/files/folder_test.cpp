#include <gtest/gtest.h>

#include <optional>

#include "keel/core/files/file.h"
#include "tests/core/files/file_test.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

using FolderTest = FileTest;

TEST_F(FolderTest, ParentFoldersAreCreated) {
  create_directories(at("a/b/c"));
  create_directories(at("a/b/c"));
  create_directories(at("a/d/"));
  create_directories(at("a/./e/../g"));
  EXPECT_TRUE(fs::is_directory(at("a/b/c")));
  EXPECT_TRUE(fs::is_directory(at("a/d")));
  EXPECT_TRUE(fs::is_directory(at("a/g")));
}

TEST_F(FolderTest, TheErrorNamesAFileInTheWay) {
  put(at("a"), "x");
  expect_error(error_of([&] { create_directories(at("a/b")); }), ExitCode::kBadConfiguration,
               {at("a/b"), "a file is in the way at \"" + at("a").string() + "\""});
  EXPECT_EQ(get(at("a")), "x");
}

TEST_F(FolderTest, AFolderIsRenamedOnlyToAFreeName) {
  create_directories(at("step.tmp"));
  put(at("step.tmp/f"), "x");
  rename_directory(at("step.tmp"), at("step"));
  EXPECT_EQ(get(at("step/f")), "x");
  EXPECT_FALSE(fs::exists(at("step.tmp")));
  create_directories(at("other"));
  expect_error(error_of([&] { rename_directory(at("other"), at("step")); }), ExitCode::kBadConfiguration,
               {at("other"), at("step"), "Directory not empty", "remove what is there"});
  EXPECT_EQ(get(at("step/f")), "x");
  expect_error(error_of([&] { rename_directory(at("no"), at("x")); }), ExitCode::kBadConfiguration, {at("no")});
}

TEST_F(FolderTest, ATreeIsRemovedWithoutFollowingLinks) {
  create_directories(at("kept"));
  put(at("kept/f"), "x");
  create_directories(at("tree/deep/er"));
  put(at("tree/deep/f"), "y");
  fs::create_directory_symlink(at("kept"), at("tree/link"));
  remove_tree(at("tree"));
  EXPECT_EQ(names(), std::vector<std::string>{"kept"});
  EXPECT_EQ(get(at("kept/f")), "x");
  remove_tree(at("tree"));
}

TEST_F(FolderTest, RemoveIfEmptyAndRemoveFileKeepFullFolders) {
  create_directories(at("full/empty"));
  put(at("full/f"), "x");
  fs::create_symlink("f", at("full/link"));
  remove_if_empty(at("full"));
  remove_file(at("full"));
  remove_if_empty(at("full/f"));
  EXPECT_EQ(names_in(at("full")), (std::vector<std::string>{"empty", "f", "link"}));
  remove_file(at("full/link"));
  EXPECT_EQ(get(at("full/f")), "x");
  remove_file(at("full/f"));
  remove_file(at("full/f"));
  remove_if_empty(at("full/empty"));
  remove_if_empty(at("full"));
  EXPECT_TRUE(names().empty());
}

TEST_F(FolderTest, TwoFoldersExchangeTheirNames) {
  for (const char* name : {"one", "two"}) {
    create_directories(at(name));
    put(at(name) / "f", name);
  }
  if (!exchange_directories(at("one"), at("two"))) GTEST_SKIP() << "not on this filesystem";
  EXPECT_EQ(get(at("one/f")), "two");
  EXPECT_EQ(get(at("two/f")), "one");
  EXPECT_FALSE(exchange_directories(at("one"), at("three")));
}

TEST_F(FolderTest, FullPathsHaveNoDotsAndNoTrailingSlash) {
  EXPECT_EQ(full_path("/a/./b/../c/"), "/a/c");
  EXPECT_EQ(full_path("/"), "/");
  EXPECT_EQ(full_path("x"), (fs::current_path() / "x").string());
}

TEST_F(FolderTest, TheRootFolderIsNeverRemoved) {
  expect_error(error_of([] { remove_tree(""); }), ExitCode::kInternal, {"refused"});
  // Runs in an unprivileged child process that owns no folder, in case the check is missing.
  const std::string got = in_child([] {
    become_ordinary_user();
    return error_of([] { remove_tree("/"); });
  });
  expect_error(got, ExitCode::kInternal, {"refused"});
}

}  // namespace
}  // namespace keel
