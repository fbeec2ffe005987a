#include "keel/task/final_answer.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(FinalAnswer, IsStrippedOfDelimiters) {
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

}  // namespace
}  // namespace keel
