// Values by Hydra's override grammar; those that it takes are compared with Hydra's own in
// tests/parity/hydra_overrides_test.py.

#include "keel/train/config/recipes/hydra_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace keel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Json value_of(const std::string& text, WrittenAs written = WrittenAs::kHydra) {
  TreeBuilder builder("key=" + text);
  read_setting_value(text, written, builder);
  return std::move(builder).finish().value;
}

TEST(HydraValue, MappingsAndListsNeedNoQuotes) {
  for (const WrittenAs written : {WrittenAs::kHydra, WrittenAs::kTyped}) {
    EXPECT_EQ(value_of("{enable_thinking:False}", written), (Json{{"enable_thinking", false}}));
    EXPECT_EQ(value_of("{a: \"b c\", 'd': [1, {e: null}]}", written),
              Json::parse(R"({"a": "b c", "d": [1, {"e": null}]})"));
    EXPECT_EQ(value_of(R"({"a": "x\ny"})", written), (Json{{"a", "x\ny"}})) << "which Hydra refuses, and JSON has";
  }
}

TEST(HydraValue, ABackslashInAListIsHydrasInAScriptAndJsonsWhereItIsTyped) {
  EXPECT_EQ(value_of(R"(["a\nb"])", WrittenAs::kHydra), Json::array({"a\\nb"}));
  EXPECT_EQ(value_of(R"(["a\nb"])", WrittenAs::kTyped), Json::array({"a\nb"}));
}

TEST(HydraValue, AnArgumentOfTrlsIsAWordOrAList) {
  EXPECT_EQ(value_of("a,b", WrittenAs::kArgument), "a,b");
  EXPECT_EQ(value_of("f(x)", WrittenAs::kArgument), "f(x)");
  EXPECT_EQ(value_of("['q', 'v']", WrittenAs::kArgument), Json::array({"q", "v"}));
  EXPECT_EQ(value_of(R"({"a": 1})", WrittenAs::kArgument), R"({"a": 1})") << "transformers reads it by its name";
}

TEST(HydraValue, WhatIsNoValueIsToldWithTheWayOut) {
  const std::pair<const char*, const char*> cases[] = {
      {"a,b", "a sweep of Hydra's"},
      {"[a],[b]", "A list is written [a,b]"},
      {"choice(1,2)", "calls a function of Hydra's"},
      {"[int(3)]", "write the value out"},
      {"{a}", "there is no : behind \"a\"; wanted a mapping such as {enable_thinking: false}"},
      {"{a:1", "the mapping is not closed; wanted }"},
      {"[a", "the list is not closed; wanted ]"},
      {"{a:}", "a value missing at column 4"},
      {"[a,,b]", "a value missing at column 4"},
      {"[a,]", "in quotes of its own"},
      {"{a:1,}", "a value missing"},
      {"{:1}", "a value missing"},
      {"[1,2]x", "'x' stands behind the end of the value"},
      {"{a:1}{b:2}", "stands behind the end"},
      {"'it''s'", "stands behind the end"},
      {"a[1]", "'[1]' stands behind the end"},
      {"[a, 'b'c]", "'c]' stands where a comma or ] ends a value"},
      {"\"a", "closing quote"},
      {"{a: ${b", "the reference ${b is not closed"},
      {"inf", "wanted a finite number"},
      {"[1, NaN]", "wanted a finite number"},
      {"{a: 1, a: 2}", "duplicate key"},
      {"{a.b: 1}", "has a dot in it"},
      {"99999999999999999999", "fits 64 bits"},
  };
  for (const auto& [text, message] : cases)
    for (const WrittenAs written : {WrittenAs::kHydra, WrittenAs::kTyped})
      EXPECT_THAT(error_of(2, [&] { value_of(text, written); }),
                  AllOf(StartsWith("key=" + std::string(text) + ": "), HasSubstr(message), Not(HasSubstr("JSON"))))
          << text;
  EXPECT_THAT(error_of(2, [] { value_of(std::string(100, '[')); }), HasSubstr("nested deeper"));
  EXPECT_THAT(error_of(2, [] { value_of(std::string(1 << 20, '[')); }), HasSubstr("nested deeper"));
}

}  // namespace
}  // namespace keel
