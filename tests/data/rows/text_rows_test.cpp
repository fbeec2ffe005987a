#include "keel/data/rows/text_rows.h"

#include <gtest/gtest.h>

#include <ctime>

#include "keel/data/rows/row_file.h"
#include "tests/data/data_support.h"
#include "tests/support/errors.h"

namespace keel {
namespace {

struct Read {
  std::vector<std::string> rows, places, bad;
};

Read read_all(const std::string& path) {
  Read read;
  RowFile::open(path).for_each(
      [&](const Row& row) {
        read.rows.push_back(row.value.dump());
        read.places.push_back(row.place.substr(row.place.find_last_of('/') + 1));
      },
      [&](const BadRow& bad) { read.bad.push_back(bad.what()); });
  return read;
}

using Texts = std::vector<std::string>;

TEST(JsonList, IsReadObjectByObjectInAnyFormatting) {
  const TestFolder folder;
  const Texts rows = {R"({"prompt":"a [1] {x}","answer":1})", R"({"prompt":"say \"],\" \\","tags":[1,[2,{"k":"]"}]]})",
                      "{}"};
  const std::string dense = "[" + rows[0] + "," + rows[1] + "," + rows[2] + "]";
  const Read one = read_all(folder.write("dense.json", dense));
  EXPECT_EQ(one.rows, rows);
  EXPECT_EQ(one.places, (Texts{"dense.json:1", "dense.json:1", "dense.json:1"}));
  EXPECT_TRUE(one.bad.empty());
  // Written by Python's json.dump(rows, indent=1), with a byte order mark and Windows line ends.
  const std::string indented =
      "\xef\xbb\xbf\r\n [\r\n {\r\n  \"prompt\": \"a [1] {x}\",\r\n  \"answer\": 1\r\n },\r\n {\r\n  \"prompt\": \"say "
      "\\\"],\\\" \\\\\",\r\n  \"tags\": [\r\n   1,\r\n   [2, {\"k\": \"]\"}]\r\n  ]\r\n },\r\n {}\r\n]\r\n";
  const Read two = read_all(folder.write("indented.json", indented));
  EXPECT_EQ(two.rows, rows);
  EXPECT_EQ(two.places, (Texts{"indented.json:3", "indented.json:7", "indented.json:14"}));
  EXPECT_EQ(read_all(folder.write("list.jsonl", dense)).rows, rows);  // the name does not matter
  EXPECT_EQ(RowFile::open(folder.write("none.json", "[ ]")).rows(), 0u);
}

TEST(JsonList, HasTheSameRowsAcrossBufferBoundaries) {
  const TestFolder folder;
  std::string text = "[";
  for (int i = 0; i < 30000; ++i)  // more than a megabyte
    text += (i > 0 ? ",\n" : "") + std::string("{\"n\": ") + std::to_string(i) + ", \"pad\": \"" +
            std::string(static_cast<size_t>(i % 90), '{') + "\"}";
  const RowFile file = RowFile::open(folder.write("many.json", text + "]"));
  ASSERT_EQ(file.rows(), 30000u);
  for (const uint64_t row : {0, 1, 17777, 29999}) {
    EXPECT_EQ(file.read(row).value["n"], row);
    EXPECT_TRUE(file.read(row).place.ends_with(":" + std::to_string(row + 1))) << file.read(row).place;
  }
}

TEST(JsonList, AnInvalidRowDoesNotAffectOthers) {
  const TestFolder folder;
  const Read read = read_all(folder.write("odd.json",
                                          "[{\"a\": 1},\n 7,\n{\"a\": tru},\n\"text, with ]\",\n{\"b\": \"x\ny\"},\n"
                                          "{\"a\": 2} {\"a\": 3},\n,{\"a\": 4}]"));
  EXPECT_EQ(read.rows, (Texts{"{\"a\":1}", "{\"a\":4}"}));
  const Texts expected = {":2: ", ":3: not valid JSON", ":4: ", ":5: ", ":7: not valid JSON", ":8: "};
  ASSERT_EQ(read.bad.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_THAT(read.bad[i], HasSubstr(expected[i]));
}

TEST(JsonList, ReportsAnIncompleteList) {
  const TestFolder folder;
  for (const char* text : {"[{\"a\": 1},", "[{\"a\": 1}", "[{\"a\": 1}, {\"a\": ", "["}) {
    const Read read = read_all(folder.write("cut.json", text));
    ASSERT_EQ(read.bad.size(), 1u) << text;
    EXPECT_THAT(read.bad[0], HasSubstr("the file ends within the list of rows"));
  }
  const Read more = read_all(folder.write("more.json", "[{\"a\": 1}]\n{\"a\": 2}"));
  EXPECT_EQ(more.rows.size(), 1u);
  ASSERT_EQ(more.bad.size(), 1u);
  EXPECT_THAT(more.bad[0], HasSubstr("more.json:2: there is text after the end of the list"));
}

// Expected values are from Python's csv.DictReader, except that empty values are null here.
class Csv : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_arrow()) GTEST_SKIP() << "built without Arrow";
  }
};

TEST_F(Csv, HasTheColumnsOfItsHeader) {
  const TestFolder folder;
  const Read read = read_all(folder.write("rows.csv",
                                          "\xef\xbb\xbfprompt,answer,\"a, b\"\r\n"
                                          "What is 2 + 2?,4,x\r\n"
                                          "\"two\nlines, and \"\"quotes\"\"\",,\"\"\r\n"
                                          "\r\n"
                                          "\xc3\xa9t\xc3\xa9,00123, padded \r\n"
                                          "last,1,2"));
  EXPECT_EQ(read.bad, Texts());
  EXPECT_EQ(read.rows, (Texts{"{\"prompt\":\"What is 2 + 2?\",\"answer\":\"4\",\"a, b\":\"x\"}",
                              "{\"prompt\":\"two\\nlines, and \\\"quotes\\\"\",\"answer\":null,\"a, b\":\"\"}",
                              "{\"prompt\":\"\xc3\xa9t\xc3\xa9\",\"answer\":\"00123\",\"a, b\":\" padded \"}",
                              "{\"prompt\":\"last\",\"answer\":\"1\",\"a, b\":\"2\"}"}));
  EXPECT_EQ(read.places, (Texts{"rows.csv:2", "rows.csv:3", "rows.csv:6", "rows.csv:7"}));
}

TEST_F(Csv, ReadingTakesLinearTimeInTheColumns) {
  const TestFolder folder;
  std::string names = "prompt", values = "a";
  for (int i = 0; i < 100000; ++i) {
    names += ",c" + std::to_string(i);
    values += ",1";
  }
  const std::string path = folder.write("wide.csv", names + "\n" + values + "\n");
  const std::clock_t start = std::clock();
  EXPECT_EQ(RowFile::open(path).rows(), 1u);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 5);
}

TEST_F(Csv, ABadRecordIsABadRowAndABadHeaderIsAnError) {
  const TestFolder folder;
  const Read read = read_all(folder.write("rows.csv", "prompt,answer\na,1,2\nb\n\"c\"d,3\n\xff,4\ngood,5\n\"open,6\n"));
  EXPECT_EQ(read.rows, Texts{"{\"prompt\":\"good\",\"answer\":\"5\"}"});
  const Texts expected = {"rows.csv:2: 3 values (the header names 2", "rows.csv:3: 1 values",
                          "rows.csv:4: unbalanced quotes, or text after", "rows.csv:5: the row is not UTF-8",
                          "rows.csv:7: unbalanced quotes"};
  ASSERT_EQ(read.bad.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_THAT(read.bad[i], HasSubstr(expected[i]));
  EXPECT_THAT(read_all(folder.write("other.csv", "prompt;answer\n\"a\";\"1\"\n")).bad.at(0), HasSubstr("with commas"));
  const Read open = read_all(folder.write("open.csv", "prompt,answer\n\"a,1\nb,2\nc,3\n"));
  EXPECT_THAT(open.bad.at(0), HasSubstr("open.csv:2: this row and the 2 after it are unreadable: unbalanced quotes"));
  for (const auto& [header, problem] : {std::pair{"a,a\n1,2\n", "twice"},
                                        {"a,,b\n1,2,3\n", "has no name"},
                                        {",prompt\n0,a\n", "index=False"},
                                        {"\"a\"b\n1\n", "unbalanced quotes"}})
    EXPECT_THAT(error_of(3, [&] { RowFile::open(folder.write("header.csv", header)); }), HasSubstr(problem));
  EXPECT_EQ(read_all(folder.write("spaced.csv", "prompt , answer\na, 1\n")).rows,
            Texts{"{\"prompt\":\"a\",\"answer\":\" 1\"}"});
  EXPECT_EQ(RowFile::open(folder.write("empty.csv", "")).rows(), 0u);
  EXPECT_EQ(RowFile::open(folder.write("header_only.csv", "a,b\n")).rows(), 0u);
}

TEST_F(Csv, ReadsRecordsAcrossBuffersAndRejectsLongOnes) {
  const TestFolder folder;
  std::string text = "prompt,answer\n";
  for (int i = 0; i < 3000; ++i)  // more than a megabyte, with line breaks inside records
    text += "\"" + std::string(static_cast<size_t>(i * 37 % 900), i % 3 == 0 ? '\n' : 'x') + "\"," + std::to_string(i) +
            "\n";
  const RowFile file = RowFile::open(folder.write("many.csv", text));
  ASSERT_EQ(file.rows(), 3000u);
  for (const uint64_t row : {0, 1, 1777, 2999}) {
    EXPECT_EQ(file.read(row).value["answer"], std::to_string(row));
    const auto end = static_cast<long>(text.find("," + std::to_string(row) + "\n"));
    const auto line = std::count(text.begin(), text.begin() + end, '\n') + 1;
    const auto breaks = row % 3 == 0 ? static_cast<long>(row * 37 % 900) : 0;
    EXPECT_TRUE(file.read(row).place.ends_with(":" + std::to_string(line - breaks))) << file.read(row).place;
  }
  const Read read = read_all(folder.write("long.csv", "prompt\ngood\n\"" + std::string(40 << 20, 'x')));
  EXPECT_EQ(read.rows.size(), 1u);
  EXPECT_THAT(read.bad.at(0), HasSubstr("long.csv:3: a row of more than 16777216 bytes"));
}

TEST(TextFormats, AreRecognizedByTheirContentOrName) {
  const TestFolder folder;
  const Read unnamed = read_all(folder.write("rows.txt", "prompt,answer\na,1\n"));
  ASSERT_FALSE(unnamed.bad.empty());
  EXPECT_THAT(unnamed.bad[0], HasSubstr("rename it to .csv"));
  EXPECT_THAT(error_of(3, [&] { RowFile::open(folder.write("rows.csv", "{\"prompt\": \"a\"}\n")); }),
              HasSubstr("holds JSON"));
  for (const auto& [name, text] : {std::pair{"rows.tsv", "prompt\tanswer\na\t1\n"}, {"rows.xlsx", "PK\x03\x04"}})
    EXPECT_THAT(error_of(3, [&] { RowFile::open(folder.write(name, text)); }), HasSubstr(" files are not supported"));
}

// gzip of "prompt,answer\na,1\n" and of [{"prompt":"a"},{"prompt":"b"}], by Python's gzip.compress(text, mtime=0).
TEST(TextFormats, HaveTheSameRowsWhenCompressed) {
  if (!has_arrow()) GTEST_SKIP() << "built without Arrow";
  const TestFolder folder;
  EXPECT_EQ(read_all(folder.write(
                         "rows.csv.gz",
                         bytes_of_hex("1f8b08000000000002032b28cacf2d28d149cc2b2e4f2de24ad431e4020008e727ea12000000")))
                .rows,
            Texts{"{\"prompt\":\"a\",\"answer\":\"1\"}"});
  EXPECT_EQ(read_all(folder.write(
                         "rows.json.gz",
                         bytes_of_hex(
                             "1f8b08000000000002038bae562a28cacf2d2851b2524a54aad541e22629d5c6020021eb7f591f000000")))
                .rows,
            (Texts{"{\"prompt\":\"a\"}", "{\"prompt\":\"b\"}"}));
}

}  // namespace
}  // namespace keel
