#include "keel/core/json_reader.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

std::string repeated(const std::string& text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) result += text;
  return result;
}

/// Returns "LINE: reason" of the parse error.
std::string parse_error_of(std::string_view text, const JsonRules& rules = {}) {
  try {
    parse_json(text, rules);
  } catch (const JsonParseError& fault) {
    return std::to_string(fault.line()) + ": " + fault.what();
  }
  return "no error";
}

TEST(JsonReader, BuildsTheTreeThatTheLibraryBuilds) {
  for (const char* text :
       {"null", " [ ] ", "{}", "-0", "18446744073709551615", "-9223372036854775808", "1e-7", "123456789012345678901",
        R"({"b": [1, 2.5, {"a": [[], {}]}, "\u0000\ud83d\ude00"], "a": {"": true}, "c": null})", "\xef\xbb\xbf[1]",
        R"([{"x": 1, "y": {"x": 2}}, [[["deep"]]], false])"})
    EXPECT_EQ(parse_json(text), Json::parse(text)) << text;
}

TEST(JsonReader, LimitsNestingDuringParsing) {
  for (const auto& [open, close] : {std::pair{"[", "]"}, {R"({"a":)", "}"}, {R"([{"a":)", "}]"}}) {
    const size_t levels = std::string(open).find_first_of("{[") == std::string(open).find_last_of("{[") ? 1 : 2;
    const auto nested = [&](size_t depth) {
      const std::string inner = std::string(open).ends_with(':') ? "1" : "";
      return repeated(open, depth / levels) + inner + repeated(close, depth / levels);
    };
    EXPECT_NO_THROW(parse_json(nested(64))) << open;
    EXPECT_EQ(parse_error_of(nested(66)), "1: nested deeper than 64 levels") << open;
    EXPECT_EQ(parse_error_of(nested(1'000'000)), "1: nested deeper than 64 levels") << open;
    EXPECT_EQ(parse_error_of(repeated(open, 1'000'000)), "1: nested deeper than 64 levels") << open;  // never closed
    EXPECT_NO_THROW(parse_json(nested(512), {.depth = kDataDepth})) << open;
    EXPECT_EQ(parse_error_of(nested(514), {.depth = kDataDepth}), "1: nested deeper than 512 levels") << open;
  }
  EXPECT_EQ(parse_error_of("{\n\"a\":\n" + repeated("[", 100)), "3: nested deeper than 64 levels");
  EXPECT_NO_THROW(parse_json("[" + repeated("[[]],", 1000) + "0]"));  // siblings
  EXPECT_NO_THROW(parse_json("\"" + repeated("[", 1000) + "\""));     // in a string
  EXPECT_FALSE(try_parse_json(repeated("[", 100)));
  EXPECT_EQ(try_parse_json("null"), Json());
}

TEST(JsonReader, NamesTheLineAndTheColumn) {
  EXPECT_TRUE(parse_error_of("{\n\"a\": 1,\n}").starts_with("3: not valid JSON: column 1: syntax error"));
  EXPECT_TRUE(parse_error_of("").starts_with("1: not valid JSON: "));
  EXPECT_TRUE(parse_error_of("1e999").starts_with("1: not valid JSON: number overflow"));
  EXPECT_TRUE(parse_error_of("[1] 2").starts_with("1: not valid JSON: "));
  EXPECT_EQ(parse_error_of(std::string("[1]\0garbage", 11)), "1: a NUL character at byte 4; JSON has none");
  EXPECT_LT(parse_error_of("\"" + std::string(1 << 20, 'x')).size(), 400u);  // the quoted text is truncated
}

TEST(JsonReader, KeepsTheLastOfRepeatedKeysUnlessTheyAreRejected) {
  EXPECT_EQ(parse_json(R"({"a": 1, "b": 2, "a": [3]})").dump(), R"({"a":[3],"b":2})");
  EXPECT_EQ(parse_error_of(R"({"a": {"x": 1, "x": 2}})", {.repeated_keys = false}),
            "1: duplicate key \"x\"; keep one of them");
  std::string many = "{";
  for (int i = 0; i < 300'000; ++i) many += "\"key " + std::to_string(i) + "\": 0, ";
  // Quadratic time would take minutes and exceed the time limit of the test.
  const Json tree = parse_json(many + "\"key 7\": 5, \"last\": 1}");
  EXPECT_EQ(tree.size(), 300'001u);
  EXPECT_EQ(std::next(tree.begin(), 7).value(), 5);
  EXPECT_EQ(parse_error_of(many + "\"key 299999\": 1}", {.repeated_keys = false}),
            "1: duplicate key \"key 299999\"; keep one of them");
}

TEST(JsonReader, RejectsIntegersThatWouldBeRoundedIfExactIsSet) {
  EXPECT_EQ(parse_error_of("[123456789012345678901]", {.exact = true}),
            "1: the integer \"123456789012345678901\" does not fit 64 bits; write it as a string");
  EXPECT_EQ(parse_error_of(R"({"a\u0000": 1})", {.nul = false}), "1: a NUL character in \"a\\u0000\"");
  EXPECT_EQ(parse_json("18446744073709551615", {.exact = true}).get<uint64_t>(), UINT64_MAX);
}

}  // namespace
}  // namespace keel
