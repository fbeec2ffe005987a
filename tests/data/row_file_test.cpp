#include "keel/data/row_file.h"

#include <gtest/gtest.h>

#include "keel/data/parquet_rows.h"
#include "tests/data/data_support.h"
#include "tests/support/errors.h"

namespace keel {
namespace {

std::string numbered_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text +=
        "{\"n\": " + std::to_string(i) + ", \"pad\": \"" + std::string(static_cast<size_t>(i * 37 % 500), 'x') + "\"}";
    text += i % 5 == 0 ? "\r\n" : i % 7 == 0 ? "\n\n  \n" : "\n";  // blank lines are no rows
  }
  return text;
}

TEST(RowFile, FindsEveryRowAgainByItsNumber) {
  const DataFolder folder;
  const std::string text = numbered_lines(3000);  // a dozen blocks of the index
  const RowFile file = RowFile::open(folder.write("rows.jsonl", text));
  ASSERT_EQ(file.rows(), 3000u);
  for (const uint64_t row : {0, 1, 2999, 1500, 7, 2048, 255, 256, 300}) {
    EXPECT_EQ(file.read(row).value["n"].get<uint64_t>(), row);
    // The line number, counted by someone else: newlines before the row's first byte.
    const size_t at = text.find("{\"n\": " + std::to_string(row) + ",");
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(at), '\n');
    EXPECT_TRUE(file.read(row).place.ends_with("rows.jsonl:" + std::to_string(line))) << file.read(row).place;
  }
  uint64_t next = 0;
  file.for_each([&](const Row& row) { EXPECT_EQ(row.value["n"].get<uint64_t>(), next++); },
                [](const BadRow& bad) { ADD_FAILURE() << bad.what(); });
  EXPECT_EQ(next, 3000u);
}

TEST(RowFile, TakesALastLineWithoutItsNewlineAndAByteOrderMarkAtTheStart) {
  const DataFolder folder;
  const RowFile file = RowFile::open(folder.write("rows.jsonl", "\xef\xbb\xbf{\"n\": 1}\n{\"n\": 2}"));
  ASSERT_EQ(file.rows(), 2u);
  EXPECT_EQ(file.read(0).value["n"], 1);
  EXPECT_EQ(file.read(1).value["n"], 2);
}

TEST(RowFile, HasNoRowsWhereThereAreNone) {
  const DataFolder folder;
  EXPECT_EQ(RowFile::open(folder.write("a.jsonl", "")).rows(), 0u);
  EXPECT_EQ(RowFile::open(folder.write("b.jsonl", "\n \n\r\n")).rows(), 0u);
  EXPECT_EQ(RowFile::open(folder.write("c.jsonl", "\xef\xbb\xbf")).rows(), 0u);
  EXPECT_EQ(RowFile::open(folder.write("d.jsonl", "\xef\xbb\xbf\r\n\n{}\n")).rows(), 1u);
  EXPECT_EQ(RowFile::open(folder.write("e.jsonl", "\n\xef\xbb\xbf")).rows(), 1u);  // bad: it is not at the start
}

TEST(RowFile, RefusesALineOfAHundredMegabytesAndReadsTheNext) {
  const DataFolder folder;
  const std::string path = (folder.path / "long.jsonl").string();
  {
    std::ofstream out(path, std::ios::binary);
    out << "{\"n\": \"";
    const std::string piece(1 << 20, 'x');
    for (int i = 0; i < 100; ++i) out << piece;
    out << "\"}\n{\"n\": 2}\n";
  }
  const RowFile file = RowFile::open(path);
  ASSERT_EQ(file.rows(), 2u);
  EXPECT_EQ(bad_row_of([&] { file.read(0); }), path + ":1: a row of 104857609 bytes; at most 67108864 are read");
  EXPECT_EQ(file.read(1).value["n"], 2);
}

class CompressedRows : public testing::TestWithParam<std::string> {
 protected:
  bool is_gzip() const { return GetParam() == "gz"; }
  DataFormat format() const { return is_gzip() ? DataFormat::kGzip : DataFormat::kZstd; }
  std::string bytes() const { return is_gzip() ? two_gzip_members() : two_zstd_frames(); }
  void SetUp() override {
    if (!can_read(format())) GTEST_SKIP() << "this build reads no ." << GetParam();
  }
};

TEST_P(CompressedRows, AreThoseOfAllMembers) {
  const DataFolder folder;
  const RowFile file = RowFile::open(folder.write("rows.jsonl." + GetParam(), bytes()));
  ASSERT_EQ(file.rows(), 3u);
  EXPECT_EQ(file.read(2).value, Json::parse(R"({"prompt": "c", "answer": 3})"));
  EXPECT_EQ(file.read(0).value["prompt"], "a");
  EXPECT_TRUE(file.read(2).place.ends_with(":3"));
  // Known by what it holds, not by its name.
  EXPECT_EQ(RowFile::open(folder.write("rows.jsonl", bytes())).rows(), 3u);
}

TEST_P(CompressedRows, OfAFileThatIsCutOffEndWithTheDamage) {
  const DataFolder folder;
  const std::string path = folder.write("cut.jsonl." + GetParam(), bytes().substr(0, bytes().size() - 6));
  const RowFile file = RowFile::open(path);
  EXPECT_EQ(file.read(0).value["prompt"], "a");  // the first member is whole
  EXPECT_NE(bad_row_of([&] { file.read(file.rows() - 1); }).find(path + (is_gzip() ? ":4: the " : ":2: the ")),
            std::string::npos);
  EXPECT_NE(bad_row_of([&] { file.read(file.rows() - 1); }).find("is cut off"), std::string::npos);
}

TEST_P(CompressedRows, OfADamagedFileEndWithTheDamage) {
  const DataFolder folder;
  std::string damaged = bytes();
  damaged[is_gzip() ? damaged.size() - 6 : 36] ^= 0x55;  // gzip: the checksum; zstd: the second frame's magic number
  const RowFile file = RowFile::open(folder.write("bad.jsonl." + GetParam(), damaged));
  EXPECT_EQ(file.read(0).value["prompt"], "a");
  EXPECT_NE(bad_row_of([&] { file.read(file.rows() - 1); }).find("damaged"), std::string::npos);
}

TEST(RowFile, PassesOverZstdFramesThatHoldNoData) {
  if (!can_read(DataFormat::kZstd)) GTEST_SKIP() << "this build reads no .zst";
  const DataFolder folder;
  const std::string data = two_zstd_frames();
  // RFC 8878, 3.1.2: 0x184D2A5?, a size of four bytes, so many bytes. pzstd writes the size of the frame that follows.
  const std::string size = bytes_of_hex("502a4d180400000023000000"), empty = bytes_of_hex("5f2a4d1800000000");
  const std::string large = bytes_of_hex("5a2a4d1800000400") + std::string(1 << 18, '\xfd');
  const auto rows = [&](const std::string& bytes) {
    const RowFile file = RowFile::open(folder.write("rows.jsonl.zst", bytes));
    std::vector<std::string> prompts;
    file.for_each([&](const Row& row) { prompts.push_back(row.value["prompt"]); },
                  [](const BadRow& bad) { ADD_FAILURE() << bad.what(); });
    return prompts;
  };
  const size_t second = data.find(bytes_of_hex("28b52ffd"), 1);
  const std::vector<std::string> expected = {"a", "b", "c"};
  EXPECT_EQ(rows(size + data), expected);
  EXPECT_EQ(rows(size + data.substr(0, second) + empty + large + data.substr(second) + empty), expected);
  EXPECT_EQ(rows(empty), std::vector<std::string>{});
  const RowFile cut = RowFile::open(folder.write("cut.jsonl.zst", data + large.substr(0, 100)));
  EXPECT_NE(bad_row_of([&] { cut.read(3); }).find("the zstd file is cut off"), std::string::npos);
}

TEST(RowFile, HasTheFingerprintOfItsRows) {
  if (!can_read(DataFormat::kGzip) || !can_read(DataFormat::kZstd)) GTEST_SKIP() << "this build lacks zlib or libzstd";
  const DataFolder folder;
  const std::string text =
      "{\"prompt\":\"a\",\"answer\":1}\n{\"prompt\":\"b\",\"answer\":2}\n{\"prompt\":\"c\",\"answer\":3}\n";
  const std::string plain = RowFile::open(folder.write("rows.jsonl", text)).fingerprint();
  EXPECT_EQ(RowFile::open(folder.write("rows.jsonl.gz", two_gzip_members())).fingerprint(), plain);
  EXPECT_EQ(RowFile::open(folder.write("rows.jsonl.zst", two_zstd_frames())).fingerprint(), plain);
  std::string mended = text;
  mended[text.find("2")] = '7';
  EXPECT_NE(RowFile::open(folder.write("rows.jsonl", mended)).fingerprint(), plain);
}

INSTANTIATE_TEST_SUITE_P(Formats, CompressedRows, testing::Values("gz", "zst"));

TEST(RowFile, RefusesANameThatPromisesAnotherFormat) {
  const DataFolder folder;
  for (const char* name : {"a.jsonl.gz", "a.zst", "a.parquet"}) {
    const std::string path = folder.write(name, "{\"prompt\": 1}\n");
    EXPECT_NE(error_of(3, [&] { RowFile::open(path); }).find(path + ": its name ends in"), std::string::npos);
    EXPECT_NE(error_of(3, [&] { RowFile::open(folder.write(name, "")); }).find("it is empty"), std::string::npos);
  }
}

TEST(RowFile, RefusesAParquetFileWithoutItsEnd) {
  if (!can_read(DataFormat::kParquet)) GTEST_SKIP() << "this build reads no Parquet";
  const DataFolder folder;
  const std::string path = folder.write("a.parquet", "PAR1 and then nothing of the kind");
  EXPECT_NE(error_of(3, [&] { RowFile::open(path); }).find(path + ": not a sound Parquet file"), std::string::npos);
}

}  // namespace
}  // namespace keel
