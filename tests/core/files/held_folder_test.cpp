#include "keel/core/files/held_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/core/files/file_test.h"
#include "tests/support/errors.h"

namespace keel {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

/// Looks into its folder by names alone.
class HeldFolderTest : public FileTest {};

TEST_F(HeldFolderTest, AFolderIsClaimedOnceAndAgainWhenItIsLetGoOf) {
  create_directories(at("run"));
  std::optional<HeldFolder> held = HeldFolder::claim(at("run"));
  ASSERT_TRUE(held);
  EXPECT_FALSE(HeldFolder::claim(at("run")));
  EXPECT_TRUE(held->is_at_its_path());
  EXPECT_EQ(held->whereabouts(), fs::canonical(at("run")));
  held.reset();
  EXPECT_TRUE(HeldFolder::claim(at("run")));
  EXPECT_THAT(error_of(2, [&] { HeldFolder::claim(at("none")); }), HasSubstr(at("none").string()));
}

TEST_F(HeldFolderTest, WhatHasTheNameOfAHeldFolderIsNotTouched) {
  create_directories(at("run/old"));
  put(at("run/old/f"), "mine");
  const HeldFolder held = *HeldFolder::claim(at("run"));
  fs::rename(at("run"), at("moved"));
  create_directories(at("elsewhere/old"));
  put(at("elsewhere/old/f"), "theirs");
  put(at("elsewhere/log"), "theirs\n");
  fs::rename(at("elsewhere"), at("run"));
  EXPECT_FALSE(held.is_at_its_path());
  EXPECT_EQ(held.whereabouts(), fs::canonical(at("moved")));
  const auto theirs = [&] { return get(at("run/old/f")) + get(at("run/log")) + get(at("run/new")); };
  const std::string before = theirs();
  EXPECT_EQ(before, "theirstheirs\n");

  write_atomically(at("run/new"), "mine");
  create_directories(at("run/folder/deep"));
  AppendFile::open(at("run/log")).append_line("mine");
  cut_to_size(at("run/log"), 0);
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

  write_atomically(at("run.rescued"), "x");  // begins like the held one, and is another
  EXPECT_EQ(get(at("run.rescued")), "x");
}

TEST_F(HeldFolderTest, AHeldFolderThatWasRemovedIsNotMadeAnew) {
  create_directories(at("run"));
  const HeldFolder held = *HeldFolder::claim(at("run"));
  fs::remove(at("run"));
  EXPECT_FALSE(held.is_at_its_path());
  EXPECT_EQ(held.whereabouts(), std::nullopt);
  EXPECT_THROW(create_directories(at("run/checkpoints")), Error);
  EXPECT_THROW(write_atomically(at("run/file"), "x"), Error);
  EXPECT_FALSE(fs::exists(at("run")));
}

TEST_F(HeldFolderTest, MayBeRenamedAndRemovedByItsOwnName) {
  create_directories(at("run/deep"));
  const HeldFolder held = *HeldFolder::claim(at("run"));
  rename_directory(at("run"), at("moved"));
  EXPECT_EQ(held.whereabouts(), fs::canonical(at("moved")));
  rename_directory(at("moved"), at("run"));
  EXPECT_TRUE(held.is_at_its_path());
  remove_tree(at("run"));
  EXPECT_FALSE(fs::exists(at("run")));
}

}  // namespace
}  // namespace keel
