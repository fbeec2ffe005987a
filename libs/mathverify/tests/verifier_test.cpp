#include "libs/mathverify/verifier.h"

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "libs/mathverify/extract.h"

namespace keel {
namespace {

struct Pair {
  std::string gold, answer;
  bool equal;
  std::string location;  // "libs/mathverify/tests/pairs.txt:17"
};

/// libs/mathverify/tests/pairs.txt, also read by tests/parity/math_pairs.py.
std::vector<Pair> read_pairs() {
  const std::string path = "libs/mathverify/tests/pairs.txt";
  std::ifstream file(path);
  std::vector<Pair> pairs;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string location = path + ":" + std::to_string(++number);
    if (line.empty() || line.starts_with("# ")) continue;
    const bool equal = line.find("  ==  ") != line.npos;
    const size_t middle = line.find(equal ? "  ==  " : "  !=  ");
    if (middle == line.npos) throw std::runtime_error(location + ": neither \"  ==  \" nor \"  !=  \"");
    pairs.push_back({line.substr(0, middle), line.substr(middle + 6), equal, location});
  }
  if (pairs.empty()) throw std::runtime_error(path + " has no pairs; run this from the repository root");
  return pairs;
}

const std::vector<Pair>& pairs() {
  static const std::vector<Pair> read = read_pairs();
  return read;
}

TEST(MathVerifier, AgreesWithEveryHandLabelledPair) {
  for (const Pair& pair : pairs()) {
    const MathVerdict verdict = verify_math(pair.gold, pair.answer);
    EXPECT_EQ(verdict.correct, pair.equal) << pair.location << ": " << pair.gold << "  against  " << pair.answer
                                           << "  read as  " << verdict.gold << "  and  " << verdict.answer;
  }
}

TEST(MathVerifier, RejectsUnequalPairsInBothDirections) {
  for (const Pair& pair : pairs())
    if (!pair.equal) {
      EXPECT_FALSE(verify_math(pair.answer, pair.gold).correct)
          << pair.location << ": " << pair.gold << "  against  " << pair.answer;
    }
}

TEST(MathVerifier, AcceptsDecimalCommasInAnswersButNotInAmbiguousGolds) {
  EXPECT_TRUE(verify_math("3.5", "3,5").correct);
  EXPECT_FALSE(verify_math("3,5", "3.5").correct);
}

TEST(MathVerifier, AcceptsEveryGoldAsItsOwnAnswer) {
  for (const Pair& pair : pairs())
    if (pair.equal) {
      EXPECT_TRUE(verify_math(pair.gold, pair.gold).correct) << pair.location << ": " << pair.gold;
    }
}

TEST(MathVerifier, ReportsBothCanonicalForms) {
  const MathVerdict verdict = verify_math("so it is \\boxed{\\frac{6}{4}}", "x = 1.5");
  EXPECT_TRUE(verdict.correct);
  EXPECT_EQ(verdict.gold, "3/2");
  EXPECT_EQ(verdict.answer, "x = 3/2");
  EXPECT_EQ(verify_math("(0, 1]", "yes").gold, "(0, 1]");
  EXPECT_EQ(verify_math("\\sqrt{12}", "yes").answer, "yes");
}

TEST(MathVerifier, AnEmptyAnswerIsWrong) {
  for (const char* empty : {"", " ", "\n", "\\boxed{}", "####", "."}) {
    EXPECT_FALSE(verify_math("", empty).correct) << empty;
    EXPECT_FALSE(verify_math("5", empty).correct) << empty;
    EXPECT_FALSE(verify_math(empty, "5").correct) << empty;
  }
}

TEST(MathVerifier, RejectsWhatTheBudgetCannotDecide) {
  EXPECT_TRUE(verify_math("(x+1)^{12}", "(1+x)^{6}(x+1)^6").correct);
  EXPECT_FALSE(verify_math("\\sin\\frac{\\pi}{10}", "\\frac{\\sqrt5-1}{4}", /*max_steps=*/1000).correct);
}

TEST(MathVerifier, ComparesHugePolynomialsAtPoints) {
  EXPECT_TRUE(verify_math("(x+y+z+w+1)^{60}", "(1+w+z+y+x)^{60}").correct);
  EXPECT_FALSE(verify_math("(x+y+z+w+1)^{60}", "(x+y+z+w-1)^{60}").correct);
}

TEST(MathExtraction, TakesTheLastBalancedBox) {
  EXPECT_EQ(extract_math_answer("first \\boxed{1}, then \\boxed{\\frac{1}{2}} done"), "\\frac{1}{2}");
  EXPECT_EQ(extract_math_answer("\\boxed{1} and \\boxed{2"), "1");
  EXPECT_EQ(extract_math_answer("\\fbox{7}"), "7");
  EXPECT_EQ(extract_math_answer("\\boxed {\\{1, 2\\}}"), "\\{1, 2\\}");
  EXPECT_EQ(extract_math_answer("\\boxed{\\boxed{3}}"), "\\boxed{3}");
  EXPECT_EQ(extract_math_answer("$\\boxed 5$ is it"), "5");
}

TEST(MathExtraction, ReadsNestedBoxesInLinearTime) {
  constexpr size_t kDepth = 200'000;
  std::string text;
  for (size_t i = 0; i < kDepth; ++i) text += "\\boxed{";
  text += "1" + std::string(kDepth, '}');
  const std::clock_t start = std::clock();
  EXPECT_EQ(extract_math_answer(text).value_or("").size(), text.size() - std::string_view("\\boxed{}").size());
  EXPECT_LT(std::clock() - start, 2 * CLOCKS_PER_SEC);  // copying each box takes half a minute
}

TEST(MathExtraction, JoinsBoxesSeparatedByAnd) {
  EXPECT_EQ(extract_math_answer("\\boxed{-2} \\quad \\text{and} \\quad \\boxed{1}."), "-2, 1");
  EXPECT_EQ(extract_math_answer("$\\boxed{1}$, $\\boxed{2}$ or $\\boxed{3}$"), "1, 2 or 3");
  EXPECT_EQ(extract_math_answer("\\boxed{1}, no: \\boxed{2}"), "2");
  EXPECT_EQ(extract_math_answer("\\boxed{1}\n\\boxed{2}"), "2");
}

TEST(MathExtraction, PrefersBoxesThenHashesThenTagsThenCuesThenTheLastLine) {
  EXPECT_EQ(extract_math_answer("#### 4\nThe answer is 5. \\boxed{6}"), "6");
  EXPECT_EQ(extract_math_answer("The answer is 5.\n#### 1,234\n"), "1,234");
  EXPECT_EQ(extract_math_answer("The answer is 4. <answer> 5 </answer>"), "5");
  EXPECT_EQ(extract_math_answer("The answer is 4.\nNo: the final answer is: **5**."), "5");
  EXPECT_EQ(extract_math_answer("one line\n\n x = 3 \n\n"), "x = 3");
  EXPECT_EQ(extract_math_answer("We get\n\\[\nx = 5\n\\]"), "x = 5");
  EXPECT_EQ(extract_math_answer("The answer is:\n$$\n\\frac{1}{2}\n$$\nas wanted"), "\\frac{1}{2}");
  EXPECT_EQ(extract_math_answer("<think>\\boxed{4}? No.</think>\nIt is 5"), "It is 5");
  EXPECT_EQ(extract_math_answer("<think>\\boxed{4}</think>\n"), "4");
  EXPECT_EQ(extract_math_answer("[[2, 0],\n [0, 2]]"), "[[2, 0],\n [0, 2]]");
  EXPECT_EQ(extract_math_answer(" \n\t"), std::nullopt);
}

}  // namespace
}  // namespace keel
