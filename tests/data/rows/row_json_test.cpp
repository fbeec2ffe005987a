#include "keel/data/rows/row_json.h"

#include <gmock/gmock.h>

#include "tests/data/data_support.h"

namespace keel {
namespace {

std::string refusal(std::string_view text) {
  return bad_row_of([&] { parse_row(text, "f.jsonl:7"); });
}

TEST(RowJson, KeepsTheOrderOfKeysAndExactNumbers) {
  const Json row =
      parse_row(R"({"b": 9223372036854775807, "a": 18446744073709551615, "c": [1.5, null, true, "ü😀"]})", "");
  EXPECT_EQ(row.begin().key(), "b");
  EXPECT_EQ(row["b"].get<int64_t>(), INT64_MAX);
  EXPECT_EQ(row["a"].get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(row["c"][0].get<double>(), 1.5);
  EXPECT_EQ(row["c"][3].get<std::string>(), "\xc3\xbc\xf0\x9f\x98\x80");
}

TEST(RowJson, NamesTheLineAndTheProblem) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {R"({"a": 1, "a": 2})", "duplicate key \"a\""},
      {R"({"a": {"x": 1, "y": 2, "x": 3}})", "duplicate key \"x\""},
      {"{\"a\": \"\xff\"}", "not UTF-8: byte 8"},
      {"{\"a\": \"\xed\xa0\x80\"}", "not UTF-8"},  // an encoded surrogate, which is not valid UTF-8
      {R"({"a": "\ud800"})", "surrogate"},         // half a pair
      {R"({"a": "\udc00"})", "surrogate"},         // the other half
      {R"({"a": "x\u0000y"})", "NUL"},
      {std::string("{\"a\": \"x\0y\"}", 12), "NUL"},
      {R"({"a": 1)", "not valid JSON"},
      {R"({"a": 1} x)", "not valid JSON"},
      {R"({"a": NaN})", "not valid JSON"},
      {R"({"a": 1e999})", "number overflow"},
      {R"({"a": 123456789012345678901234567890})", "does not fit 64 bits"},
      {R"([{"a": 1}])", "one object per line"},
      {"3", "expected an object, {...}; got number"},
      {"\xef\xbb\xbf{\"a\": 1}", "byte order mark"},
      {"{\"a\": " + std::string(512, '[') + std::string(512, ']') + "}", "nested deeper than 512"}};
  for (const auto& [text, expected] : rows) {
    const std::string got = refusal(text);
    EXPECT_TRUE(got.starts_with("f.jsonl:7: ")) << got;
    EXPECT_THAT(got, testing::HasSubstr(expected)) << text;
  }
}

// json.dump(..., indent=1) and an object with a list start like this; a truncated row does not.
TEST(RowJson, SuggestsThatARowHasSeveralLines) {
  for (const char* line : {"{", " {\r", "{\"data\": [", "{\"a\": 1,"})
    EXPECT_THAT(refusal(line), testing::HasSubstr("if the file is an object that contains the rows")) << line;
  EXPECT_THAT(refusal("{\"a\": 1"), testing::Not(testing::HasSubstr("next line")));
}

TEST(RowJson, RejectsADuplicateAmongManyKeys) {
  std::string text = "{";
  for (int i = 0; i < 2000; ++i) text += "\"k" + std::to_string(i) + "\": 0, ";
  EXPECT_EQ(parse_row(text + "\"last\": 1}", "").size(), 2001u);
  EXPECT_THAT(refusal(text + "\"k1999\": 1}"), testing::HasSubstr("duplicate key \"k1999\""));
}

}  // namespace
}  // namespace keel
