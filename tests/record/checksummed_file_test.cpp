#include "keel/record/checksummed_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "keel/core/error.h"
#include "keel/record/run_folder.h"
#include "tests/support/errors.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ChecksummedFileTest : public testing::Test {
 protected:
  LineChecksums written(const std::vector<std::string>& lines) const {
    ChecksummedFile file = ChecksummedFile::open(path_);
    for (const std::string& line : lines) file.add(line);
    return file.checksums();
  }
  std::string change(const LineChecksums& remembered) const {
    return find_changed_line(path_, remembered).value_or("none");
  }

  const TestFolder made_;
  const std::filesystem::path &folder_ = made_.path, path_ = folder_ / "metrics.jsonl";
};

TEST_F(ChecksummedFileTest, HasTheChecksumOfEachLine) {
  // CRC-32C of "123456789" (the check value of the algorithm) and of "".
  EXPECT_THAT(written({"123456789", ""}), ElementsAre(0xe3069283u, 0u));
  EXPECT_THAT(written({"123456789"}), ElementsAre(0xe3069283u, 0u, 0xe3069283u));  // reopened
  EXPECT_EQ(read_file(path_), "123456789\n\n123456789\n");
}

TEST_F(ChecksummedFileTest, FindsEveryFlippedBit) {
  const std::vector<std::string> lines{R"({"step": 1})", R"({"step": 2, "x": "line"})", "", R"({"step": 3})"};
  const LineChecksums remembered = written(lines);
  const std::string bytes = read_file(path_);
  write_atomically(path_, bytes + "further lines\nare ignored");
  EXPECT_EQ(change(remembered), "none");
  for (size_t at = 0; at < bytes.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      std::ofstream(path_, std::ios::binary) << flipped;
      const auto line = 1 + std::count(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at), '\n');
      // Without the last newline the last line is incomplete.
      if (at + 1 == bytes.size())
        EXPECT_EQ(change(remembered), "it ends after line 3 of 4");
      else
        EXPECT_EQ(change(remembered), "line " + std::to_string(line) + " was changed") << at;
    }
}

TEST_F(ChecksummedFileTest, FindsMissingAndShorterFiles) {
  const LineChecksums remembered = written({"a", "b"});
  write_atomically(path_, "a\n");
  EXPECT_EQ(change(remembered), "it ends after line 1 of 2");
  write_atomically(path_, "");
  EXPECT_EQ(change(remembered), "it ends after line 0 of 2");
  remove_tree(path_);
  EXPECT_EQ(change(remembered), "it is missing");
  EXPECT_EQ(change({}), "none");
}

TEST_F(ChecksummedFileTest, ReadsLinesLongerThanABuffer) {
  const LineChecksums remembered = written({std::string(3 << 20, 'a'), "b", std::string((1 << 20) - 1, 'c'), "d"});
  EXPECT_EQ(remembered.size(), 4u);
  EXPECT_EQ(ChecksummedFile::open(path_).checksums(), remembered);
  EXPECT_EQ(change(remembered), "none");
  truncate_to_lines(path_, 2);
  EXPECT_EQ(std::filesystem::file_size(path_), (3u << 20) + 3);
}

TEST_F(ChecksummedFileTest, TruncatesToItsFirstLines) {
  written({"a", "bc", "d"});
  truncate_to_lines(path_, 2);
  EXPECT_EQ(read_file(path_), "a\nbc\n");
  truncate_to_lines(path_, 0);
  EXPECT_EQ(read_file(path_), "");
  remove_tree(path_);
  truncate_to_lines(path_, 0);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ChecksummedFileTest, RestoresUnchangedLinesAndCopiesTheDamagedFile) {
  const LineChecksums remembered = written({"a", "b", "c", "d"});
  write_atomically(path_, "a\nX\nd\nlater\n");  // b changed, c gone
  EXPECT_EQ(restore_unchanged_lines(path_, remembered), path_.string() + ".damaged");
  EXPECT_EQ(read_file(path_), "a\nd\n");
  EXPECT_EQ(read_file(path_.string() + ".damaged"), "a\nX\nd\nlater\n");
  write_atomically(path_, "Y\nb\n");
  EXPECT_EQ(restore_unchanged_lines(path_, remembered), path_.string() + ".damaged-2");  // nothing is overwritten
  EXPECT_EQ(read_file(path_), "b\n");
  remove_tree(path_);
  EXPECT_EQ(restore_unchanged_lines(path_, remembered), std::nullopt);
  EXPECT_EQ(read_file(path_), "");
}

TEST_F(ChecksummedFileTest, ParsesItsHexadecimalChecksums) {
  const LineChecksums checksums{0, 1, 0xdeadbeef, 0xffffffff};
  EXPECT_EQ(to_hex(checksums), "0000000000000001deadbeefffffffff");
  EXPECT_EQ(from_hex(to_hex(checksums)), checksums);
  EXPECT_THAT(*from_hex(""), IsEmpty());
  for (const char* text : {"0", "0000000g", "000000001", "-0000001", "        "}) EXPECT_FALSE(from_hex(text)) << text;
}

TEST_F(ChecksummedFileTest, ReportsARemovedFolderOrRows) {
  const std::filesystem::path run = folder_ / "run", moved = folder_ / "moved";
  RunFolder folder = RunFolder::create(run, /*replace=*/false, "config\n");
  folder.add_metrics({{"step", 1}});
  rename_directory(run, moved);
  std::filesystem::create_directory(run);  // as another process would
  folder.add_metrics({{"step", 2}});
  folder.log_writer()("after the move");
  EXPECT_EQ(folder.current_path(), std::filesystem::canonical(moved));
  EXPECT_EQ(folder.sync().metrics.size(), 2u);
  EXPECT_THAT(read_file(moved / "log.txt"), HasSubstr("after the move"));
  std::filesystem::remove(moved / "metrics.jsonl");
  const Json third_step = {{"step", 3}};
  EXPECT_THAT(error_of(4, [&] { folder.add_metrics(third_step); }), HasSubstr("metrics.jsonl was removed or replaced"));
  EXPECT_THAT(error_of(4, [&] { folder.write([&] { write_atomically(run / "no/such", "x"); }); }),
              HasSubstr("No such file or directory"));
  for (const char* name : {"samples.jsonl", "log.txt", "config.yaml"}) std::filesystem::remove(moved / name);
  std::filesystem::remove(moved);
  EXPECT_THAT(error_of(4, [&] { folder.add_metrics({{"step", 4}}); }), HasSubstr("was removed during the run"));
  EXPECT_EQ(folder.current_path(), run);
  EXPECT_TRUE(std::filesystem::is_empty(run));
}

}  // namespace
}  // namespace keel
