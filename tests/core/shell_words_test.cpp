#include "keel/core/shell_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ShellWords, AreSplitAtSpacesUnlessQuoted) {
  EXPECT_THAT(*shell_words("  ./judge.sh --k 3  "), ElementsAre("./judge.sh", "--k", "3"));
  EXPECT_THAT(*shell_words(R"(a 'b c' "d e"f \ g '\' "\"\\")"), ElementsAre("a", "b c", "d ef", " g", "\\", "\"\\"));
  EXPECT_THAT(*shell_words("a '' b"), ElementsAre("a", "", "b"));
  EXPECT_THAT(*shell_words(""), IsEmpty());
  EXPECT_THAT(*shell_words("tail\\"), ElementsAre("tail\\"));
  EXPECT_EQ(shell_words("'a b"), std::nullopt);
  EXPECT_EQ(shell_words("a \"b"), std::nullopt);
}

TEST(ShellWords, AreSplitIntoTheOriginalTextsAfterQuoting) {
  EXPECT_EQ(shell_word("/plain/path_1.py"), "/plain/path_1.py");
  for (const std::string text : {"", "a b", "it's", "\"", "\\", "$HOME", "a'b'c", "*", "-x"})
    EXPECT_THAT(*shell_words("x " + shell_word(text)), ElementsAre("x", text)) << text;
}

}  // namespace
}  // namespace keel
