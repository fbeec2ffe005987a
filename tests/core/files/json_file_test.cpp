#include "keel/core/files/json_file.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(JsonLine, HasNoLineEndForAnyReader) {
  // Python's str.splitlines() also splits at these; JSON escapes the control characters anyway.
  const std::string text = "a\u0085b\u2028c\u2029d\v\f\x1C\x1D\x1E\r\n\u00C2\u2027\u202A";
  const std::string line = json_line({{"text", text}});
  EXPECT_EQ(line, "{\"text\":\"a\\u0085b\\u2028c\\u2029d\\u000b\\f\\u001c\\u001d\\u001e\\r\\n\u00C2\u2027\u202A\"}");
  EXPECT_EQ(Json::parse(line)["text"], text);
}

TEST(JsonLine, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(json_line("a\xFF"), "\"a\uFFFD\"");
  EXPECT_EQ(json_line("\u2028\xE2\x80"), "\"\\u2028\uFFFD\"");
}

}  // namespace
}  // namespace keel
