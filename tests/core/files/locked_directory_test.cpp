#include "keel/core/files/locked_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/core/files/file_test.h"
#include "tests/support/errors.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

class LockedDirectoryTest : public FileTest {};

TEST_F(LockedDirectoryTest, IsLockedOnceUntilItIsReleased) {
  create_directories(at("run"));
  std::optional<LockedDirectory> directory = LockedDirectory::lock(at("run"));
  ASSERT_TRUE(directory);
  EXPECT_FALSE(LockedDirectory::lock(at("run")));
  EXPECT_EQ(directory->current_path(), at("run"));
  directory.reset();
  EXPECT_TRUE(LockedDirectory::lock(at("run")));
  EXPECT_THAT(error_of(2, [&] { LockedDirectory::lock(at("none")); }), HasSubstr(at("none").string()));
}

TEST_F(LockedDirectoryTest, ADirectoryAtTheOldPathIsNotTouchedAfterAMove) {
  create_directories(at("run/old"));
  put(at("run/old/f"), "mine");
  const LockedDirectory directory = *LockedDirectory::lock(at("run"));
  fs::rename(at("run"), at("moved"));
  create_directories(at("elsewhere/old"));
  put(at("elsewhere/old/f"), "theirs");
  put(at("elsewhere/log"), "theirs\n");
  fs::rename(at("elsewhere"), at("run"));
  EXPECT_EQ(directory.current_path(), fs::canonical(at("moved")));
  const auto theirs = [&] { return get(at("run/old/f")) + get(at("run/log")) + get(at("run/new")); };
  const std::string before = theirs();
  EXPECT_EQ(before, "theirstheirs\n");

  write_atomically(at("run/new"), "mine");
  create_directories(at("run/folder/deep"));
  AppendFile::open(at("run/log")).append_line("mine");
  truncate_file(at("run/log"), 0);
  rename_directory(at("run/folder"), at("run/renamed"));
  EXPECT_EQ(read_file(at("run/old/f")), "mine");
  EXPECT_EQ(InputFile::open(at("run/old/f")).size(), 4u);
  EXPECT_EQ(list_directory(at("run")), (std::vector<std::string>{"log", "new", "old", "renamed"}));
  remove_tree(at("run/old"));
  EXPECT_TRUE(path_exists(at("run/new")) && is_folder(at("run/renamed")));
  EXPECT_FALSE(path_exists(at("run/old")));
  EXPECT_EQ(theirs(), before);
  EXPECT_EQ(list_directory(at("moved")), (std::vector<std::string>{"log", "new", "renamed"}));
  EXPECT_EQ(get(at("moved/new")), "mine");

  write_atomically(at("run.other"), "x");  // another path with the same prefix
  EXPECT_EQ(get(at("run.other")), "x");
}

TEST_F(LockedDirectoryTest, IsNotRecreatedAfterARemoval) {
  create_directories(at("run"));
  const LockedDirectory directory = *LockedDirectory::lock(at("run"));
  fs::remove(at("run"));
  EXPECT_EQ(directory.current_path(), std::nullopt);
  EXPECT_THROW(create_directories(at("run/checkpoints")), Error);
  EXPECT_THROW(write_atomically(at("run/file"), "x"), Error);
  EXPECT_FALSE(fs::exists(at("run")));
}

TEST_F(LockedDirectoryTest, ParentsOfItsOldPathAreNotRecreated) {
  create_directories(at("above/run"));
  const LockedDirectory directory = *LockedDirectory::lock(at("above/run"));
  fs::rename(at("above"), at("moved"));
  create_directories(at("above/run/checkpoints/step"));
  EXPECT_EQ(names(), std::vector<std::string>{"moved"});
  EXPECT_TRUE(fs::is_directory(at("moved/run/checkpoints/step")));
}

TEST_F(LockedDirectoryTest, CanBeRenamedAndRemovedByItsOwnName) {
  create_directories(at("run/deep"));
  const LockedDirectory directory = *LockedDirectory::lock(at("run"));
  rename_directory(at("run"), at("moved"));
  EXPECT_EQ(directory.current_path(), fs::canonical(at("moved")));
  rename_directory(at("moved"), at("run"));
  EXPECT_EQ(directory.current_path(), at("run"));
  remove_tree(at("run"));
  EXPECT_FALSE(fs::exists(at("run")));
}

}  // namespace
}  // namespace keel
