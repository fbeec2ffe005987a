#include "keel/data/rows/row_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "keel/data/rows/parquet_rows.h"
#include "tests/data/data_support.h"
#include "tests/support/errors.h"

namespace keel {
namespace {

std::string numbered_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text +=
        "{\"n\": " + std::to_string(i) + ", \"pad\": \"" + std::string(static_cast<size_t>(i * 37 % 500), 'x') + "\"}";
    text += i % 5 == 0 ? "\r\n" : i % 7 == 0 ? "\n\n  \n" : "\n";  // blank lines are not rows
  }
  return text;
}

TEST(RowFile, ReadsEveryRowByItsIndex) {
  const TestFolder folder;
  const std::string text = numbered_lines(3000);  // 12 blocks of the index
  const RowFile file = RowFile::open(folder.write("rows.jsonl", text));
  ASSERT_EQ(file.rows(), 3000u);
  for (const uint64_t row : {0, 1, 2999, 1500, 7, 2048, 255, 256, 300}) {
    EXPECT_EQ(file.read(row).value["n"].get<uint64_t>(), row);
    // The expected line number: newlines before the first byte of the row.
    const size_t at = text.find("{\"n\": " + std::to_string(row) + ",");
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(at), '\n');
    EXPECT_TRUE(file.read(row).place.ends_with("rows.jsonl:" + std::to_string(line))) << file.read(row).place;
  }
  uint64_t next = 0;
  file.for_each([&](const Row& row) { EXPECT_EQ(row.value["n"].get<uint64_t>(), next++); },
                [](const BadRow& bad) { ADD_FAILURE() << bad.what(); });
  EXPECT_EQ(next, 3000u);
}

TEST(RowFile, AcceptsALastLineWithoutANewlineAndAByteOrderMark) {
  const TestFolder folder;
  const RowFile file = RowFile::open(folder.write("rows.jsonl", "\xef\xbb\xbf{\"n\": 1}\n{\"n\": 2}"));
  ASSERT_EQ(file.rows(), 2u);
  EXPECT_EQ(file.read(0).value["n"], 1);
  EXPECT_EQ(file.read(1).value["n"], 2);
}

TEST(RowFile, IgnoresBlankLinesAndTheByteOrderMark) {
  const TestFolder folder;
  EXPECT_EQ(RowFile::open(folder.write("a.jsonl", "")).rows(), 0u);
  EXPECT_EQ(RowFile::open(folder.write("b.jsonl", "\n \n\r\n")).rows(), 0u);
  EXPECT_EQ(RowFile::open(folder.write("c.jsonl", "\xef\xbb\xbf")).rows(), 0u);
  EXPECT_EQ(RowFile::open(folder.write("d.jsonl", "\xef\xbb\xbf\r\n\n{}\n")).rows(), 1u);
  EXPECT_EQ(RowFile::open(folder.write("e.jsonl", "\n\xef\xbb\xbf")).rows(), 1u);  // bad: it is not at the start
}

TEST(RowFile, RejectsALineOfAHundredMegabytesAndReadsTheNext) {
  const TestFolder folder;
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
  const std::string error = bad_row_of([&] { file.read(0); });
  EXPECT_TRUE(error.starts_with(path + ":1: a row of at least 104857609 bytes (at most 16 MiB are read)")) << error;
  EXPECT_EQ(file.read(1).value["n"], 2);
}

class CompressedRows : public testing::TestWithParam<std::string> {
 protected:
  bool is_gzip() const { return GetParam() == "gz"; }
  std::string bytes() const { return is_gzip() ? two_gzip_members() : two_zstd_frames(); }
  void SetUp() override {
    if (!has_arrow()) GTEST_SKIP() << "built without Arrow";
  }
};

TEST_P(CompressedRows, AreReadFromAllMembers) {
  const TestFolder folder;
  const RowFile file = RowFile::open(folder.write("rows.jsonl." + GetParam(), bytes()));
  ASSERT_EQ(file.rows(), 3u);
  EXPECT_EQ(file.read(2).value, Json::parse(R"({"prompt": "c", "answer": 3})"));
  EXPECT_EQ(file.read(0).value["prompt"], "a");
  EXPECT_TRUE(file.read(2).place.ends_with(":3"));
  // Recognized by its content, not by its name.
  EXPECT_EQ(RowFile::open(folder.write("rows.jsonl", bytes())).rows(), 3u);
}

TEST_P(CompressedRows, OfATruncatedFileEndWithABadRow) {
  const TestFolder folder;
  const std::string path = folder.write("cut.jsonl." + GetParam(), bytes().substr(0, bytes().size() - 6));
  const RowFile file = RowFile::open(path);
  EXPECT_EQ(file.read(0).value["prompt"], "a");  // the first member is complete
  EXPECT_THAT(bad_row_of([&] { file.read(file.rows() - 1); }), HasSubstr(path + (is_gzip() ? ":4: the " : ":2: the ")));
  EXPECT_THAT(bad_row_of([&] { file.read(file.rows() - 1); }), HasSubstr("is truncated"));
}

TEST_P(CompressedRows, OfADamagedFileEndWithABadRow) {
  const TestFolder folder;
  std::string damaged = bytes();
  damaged[is_gzip() ? damaged.size() - 6 : 36] ^= 0x55;  // gzip: the checksum; zstd: the second frame's magic number
  const RowFile file = RowFile::open(folder.write("bad.jsonl." + GetParam(), damaged));
  EXPECT_EQ(file.read(0).value["prompt"], "a");
  EXPECT_THAT(bad_row_of([&] { file.read(file.rows() - 1); }), HasSubstr("damaged"));
}

TEST(RowFile, SkipsZstdFramesWithoutData) {
  if (!has_arrow()) GTEST_SKIP() << "built without Arrow";
  const TestFolder folder;
  const std::string data = two_zstd_frames();
  // RFC 8878, 3.1.2: 0x184D2A5?, a four-byte size, and that many bytes. pzstd writes the size of the next frame.
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
  EXPECT_THAT(bad_row_of([&] { cut.read(3); }), HasSubstr("the zstd file is truncated"));
}

/// 15,000 rows {} compressed by Python's gzip and by pyarrow, and 15,000 nulls written by pyarrow.
struct CompressedFile {
  const char *name, *hex;
};
constexpr CompressedFile kCompressedRows[] = {
    {"rows.jsonl.gz",
     "1f8b0800000000000203edc2310d00000c03a07f969b79af8b5e10f2175555555555555555555555555555555555555555555555555555"
     "55555555555555555555555555555555555d2d84e3ed77c8af0000"},
    {"rows.jsonl.zst", "28b52ffd60c8ae5d0000187b7d0a0100c22f753704"},
    {"rows.parquet",
     "504152311500151015222c15b0ea011500150615061c00000028b52ffd200841000004000000b0ea01001504192c35001806736368656d"
     "61150200150c250218016125004c1c00000016b0ea01191c191c26001c150c1925060019180161150c16b0ea01163a164c2608491c1500"
     "15001502003c160019061926b0ea0100000000163a16b0ea012608164c002820706172717565742d6370702d6172726f77207665727369"
     "6f6e2032362e302e31191c1c0000008a00000050415231"},
};

TEST(RowFile, RejectsFilesWithAHighCompressionRatioOrALargeContent) {
  const TestFolder folder;
  for (const auto& [name, hex] : kCompressedRows) {
    const std::string path = folder.write(name, bytes_of_hex(hex));
    if (!has_arrow()) continue;
    EXPECT_EQ(RowFile::open(path).rows(), 15'000u) << name;  // few enough
    EXPECT_EQ(RowFile::open(path, UnpackLimits{.harmless = 0, .expansion = 10'000}).rows(), 15'000u) << name;
    const std::string ratio =
        error_of(3, [&] { RowFile::open(path, UnpackLimits{.harmless = 1000, .expansion = 100}); });
    for (const char* part : {path.c_str(), "unpack to more than",
                             "at most 100 times, as a guard against decompression bombs", "unpack it yourself"})
      EXPECT_THAT(ratio, HasSubstr(part));
    const std::string total = error_of(3, [&] { RowFile::open(path, UnpackLimits{.total = 40'000}); });
    for (const char* part : {path.c_str(), "at most 40000", "unpack it yourself"}) EXPECT_THAT(total, HasSubstr(part));
  }
}

TEST(RowFile, RejectsACompressedFileThatChangesWhileItIsRead) {
  if (!has_arrow()) GTEST_SKIP() << "built without Arrow";
  const TestFolder folder;
  std::string frames;
  for (int i = 0; i < 1000; ++i) frames += bytes_of_hex(kCompressedRows[1].hex);  // 15 million rows take a moment
  const std::string path = folder.write("rows.jsonl.zst", frames);
  std::jthread toucher([&](const std::stop_token& stop) {
    for (int i = 1; !stop.stop_requested(); ++i) {
      const timespec times[2] = {{i, 0}, {i, 0}};
      utimensat(AT_FDCWD, path.c_str(), times, 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_THAT(error_of(3, [&] { RowFile::open(path, UnpackLimits{.expansion = 10'000}); }),
              HasSubstr("was changed while it"));
}

/// Overwrites a part of a file without changing its size and, with `keep_times`, its times.
void overwrite(const std::string& path, std::streamoff at, std::string_view bytes, bool keep_times = false) {
  struct stat before {};
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(at) << bytes;
  const timespec times[2] = {before.st_atim, before.st_mtim};
  if (keep_times) {
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
}

TEST(RowFile, DetectsRowsThatWereOverwrittenInPlace) {
  const TestFolder folder;
  const std::string text = numbered_lines(3000);
  for (const bool keep_times : {false, true}) {
    const std::string path = folder.write("rows.jsonl", text);
    const RowFile file = RowFile::open(path);
    const auto changed = static_cast<std::streamoff>(text.find("{\"n\": 1500,") + 6);
    overwrite(path, changed, "7", keep_times);
    EXPECT_EQ(file.read(10).value["n"], 10);  // in another block
    EXPECT_EQ(file.read(2990).value["n"], 2990);
    const std::string message = error_of(3, [&] { file.read(1500); });
    for (const char* part : {path.c_str(), "have changed since it was first read", "restore the old content"})
      EXPECT_THAT(message, HasSubstr(part));
    error_of(3, [&] { file.for_each([](const Row&) {}, [](const BadRow&) {}); });
    overwrite(path, changed, "1");  // the old content is back
    EXPECT_EQ(file.read(1500).value["n"], 1500);
    overwrite(path, 0, std::string(text.size(), ' '));
    error_of(3, [&] { file.read(0); });
  }
}

TEST(RowFile, AcceptsChangesThatKeepItsRows) {
  const TestFolder folder;
  const std::string text = numbered_lines(3000), path = folder.write("rows.jsonl", text);
  const RowFile file = RowFile::open(path);
  const auto has_all_rows = [&] {
    uint64_t next = 0;
    file.for_each([&](const Row& row) { EXPECT_EQ(row.value["n"].get<uint64_t>(), next++); },
                  [](const BadRow& bad) { ADD_FAILURE() << bad.what(); });
    return next == 3000 && file.read(2999).value["n"] == 2999;
  };
  overwrite(path, 0, text);  // same content, new time
  EXPECT_TRUE(has_all_rows());
  std::ofstream(path, std::ios::app) << "{\"n\": 3000}\n";  // appended
  EXPECT_TRUE(has_all_rows());
  std::filesystem::rename(folder.write("other.jsonl", "{\"n\": 5}\n"), path);  // replaced by another file
  EXPECT_TRUE(has_all_rows());
  const std::string again = folder.write("again.jsonl", text);
  const RowFile cut = RowFile::open(again);
  std::filesystem::resize_file(again, text.size() - 1);
  EXPECT_THAT(error_of(3, [&] { cut.read(2999); }), HasSubstr("do not change files that are being read"));
}

TEST(RowFile, TheFingerprintDependsOnTheRowsNotOnTheCompression) {
  if (!has_arrow()) GTEST_SKIP() << "built without Arrow";
  const TestFolder folder;
  const std::string text =
      "{\"prompt\":\"a\",\"answer\":1}\n{\"prompt\":\"b\",\"answer\":2}\n{\"prompt\":\"c\",\"answer\":3}\n";
  const std::string plain = RowFile::open(folder.write("rows.jsonl", text)).fingerprint();
  EXPECT_EQ(RowFile::open(folder.write("rows.jsonl.gz", two_gzip_members())).fingerprint(), plain);
  EXPECT_EQ(RowFile::open(folder.write("rows.jsonl.zst", two_zstd_frames())).fingerprint(), plain);
  std::string changed = text;
  changed[text.find("2")] = '7';
  EXPECT_NE(RowFile::open(folder.write("rows.jsonl", changed)).fingerprint(), plain);
}

INSTANTIATE_TEST_SUITE_P(Formats, CompressedRows, testing::Values("gz", "zst"));

TEST(RowFile, RejectsANameOfAnotherFormat) {
  const TestFolder folder;
  for (const char* name : {"a.jsonl.gz", "a.zst", "a.parquet"}) {
    const std::string path = folder.write(name, "{\"prompt\": 1}\n");
    EXPECT_THAT(error_of(3, [&] { RowFile::open(path); }), HasSubstr(path + ": its name ends in"));
    EXPECT_THAT(error_of(3, [&] { RowFile::open(folder.write(name, "")); }), HasSubstr("it is empty"));
  }
}

TEST(RowFile, RejectsAParquetFileWithoutAFooter) {
  if (!has_arrow()) GTEST_SKIP() << "built without Arrow";
  const TestFolder folder;
  const std::string path = folder.write("a.parquet", "PAR1 and then nothing of the kind");
  EXPECT_THAT(error_of(3, [&] { RowFile::open(path); }), HasSubstr(path + ": not a valid Parquet file"));
}

}  // namespace
}  // namespace keel
