#include "keel/task/final_answer.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(FinalAnswer, IsFreedOfWhatStandsAroundIt) {
  struct Row {
    const char *completion, *answer;
  };
  for (const Row& row :
       {Row{"#### 12", "12"}, Row{"a\n#### 12<eos>", "12"}, Row{"#### 12 <|im_end|>\n", "12"},
        Row{"#### \"abc\"", "abc"}, Row{"\\boxed{\\text{abc}}", "abc"}, Row{"The answer is `abc`.", "abc"},
        Row{"#### $\\text{'abc'}$", "abc"}, Row{"**12**", "12"}, Row{"", ""}, Row{"<eos>", ""}, Row{"#### ", ""},
        Row{"#### \"", "\""}, Row{"<answer>12</answer>", "12"}, Row{"#### 3 <|a|> 4", "3 <|a|> 4"}})
    EXPECT_EQ(final_answer(row.completion), row.answer) << row.completion;
}

TEST(LiteralInteger, IsANumberWrittenOut) {
  struct Row {
    const char* text;
    int64_t value;
  };
  for (const Row& row :
       {Row{"12", 12}, Row{"-12", -12}, Row{"\u221212", -12}, Row{"0", 0}, Row{"-0", 0}, Row{"1,234", 1234},
        Row{"-12,345,678", -12345678}, Row{"x = 5", 5}, Row{"x=-5", -5}, Row{"3 + 9 = 12", 12}, Row{"= 4", 4},
        Row{" 4 ", 4}, Row{"999999999999999999", 999999999999999999}})
    EXPECT_EQ(literal_integer(row.text), row.value) << row.text;
}

TEST(LiteralInteger, IsNothingThatMustBeWorkedOutOrGuessed) {
  for (const char* text : {"",         "-",        "--1",       "+1",      "1.0",       "1e3",
                           "3 + 9",    "(12)",     "12 apples", "1 2",     "1,23",      ",12",
                           "12,",      "1234,567", "1,2345",    "1,234,5", "3x = 12",   "xy = 12",
                           "12 or 13", "x = 1, 2", "12%",       "$",       "twelve",    "007",
                           "00",       "0x1F",     "1_000",     "12 = x",  "1 = 2 = x", "1000000000000000000",
                           "\xff",     "1\xff"})
    EXPECT_EQ(literal_integer(text), std::nullopt) << text;
}

TEST(LiteralList, ReadsNumbersBetweenBracketsCommasOrSpaces) {
  const std::vector<int64_t> want = {3, -1, 20};
  for (const char* text : {"[3, -1, 20]", "3,-1,20", "3 -1 20", "[3 , -1 , 20]", "[ 3,-1,20 ]"})
    EXPECT_EQ(literal_list(text, 3), want) << text;
  for (const char* text : {"", "[]", "[3, -1, 20", "3, -1, 20]", "(3, -1, 20)", "3;-1;20", "3, -1, 20,", ",3", "3,,20",
                           "3--1", "[3, -1, x]", "[[3], -1, 20]", "3, -1, 20, 4", "3, -1, 20 and 4"})
    EXPECT_NE(literal_list(text, 3), want) << text;
  EXPECT_EQ(literal_list("1, 2, 3, 4", 3), std::nullopt);
}

}  // namespace
}  // namespace keel
