#include "libs/mathverify/extract_choice.h"
#include "libs/mathverify/extract_number.h"

#include <gtest/gtest.h>

namespace keel {
namespace {

TEST(ExtractNumber, EvaluatesFormulas) {
  const std::pair<const char*, double> cases[] = {
      {"5", 5}, {"-3", -3}, {"\u22123", -3},  // the Unicode minus sign
      {"$1,234.50", 1234.5}, {"-$5", -5}, {"$-5", -5}, {"1e3", 1000}, {"1.5e-3", 0.0015}, {".5", 0.5}, {"5 000", 5000},
      {"5%", 5}, {"1/2", 0.5}, {"\\frac{3}{4}", 0.75}, {"3 1/2", 3.5}, {"10^3", 1000}, {"4-5", -1}, {"x = 12", 12},
      {"So x = 12", 12}, {"12 apples", 12}, {"5kg", 5}, {"\\text{5}", 5}, {"**5**", 5}};
  for (const auto& [answer, value] : cases) EXPECT_DOUBLE_EQ(extract_number(answer).value_or(-99), value) << answer;
}

TEST(ExtractNumber, TakesTheLastNumberOfASentence) {
  const std::pair<const char*, double> cases[] = {
      {"He has 12 apples, then 7 more were left", 7}, {"It costs -$5 today", -5},
      {"The temperature is \u22123\u00b0C outside", -3}, {"So we get 3/4 of it", 0.75}, {"So we need 3 1/2 cups", 3.5},
      {"The total is **1,234** dollars", 1234}, {"in all that is 5 000", 5000}, {"Total: 3 + 4 = 7 apples", 7},
      {"it is the 5th", 5}, {"she buys 5kg of it", 5}, {"La r\u00e9ponse est 5", 5},
      {"\u7b54\u3048\u306f5\u3067\u3059", 5}, {"it is 50% off", 50}};
  for (const auto& [answer, value] : cases) EXPECT_DOUBLE_EQ(extract_number(answer).value_or(-99), value) << answer;
}

TEST(ExtractNumber, RejectsNumbersInsideLargerExpressions) {
  for (const char* answer : {
      "x_2", "x_{2}", "the value is x_2", "2x", "the result is 3x", "x^2", "we have x^2", "so that is 10^3 x", "f(2)",
      "the value f(2)", "(1,2)", "the pair (1,2)", "1, 2", "11:30", "at 11:30", "1.2.3", "1.234,56", "2024-01-02",
      "on 1/2/2024", "that takes 4-5 hours", "the sum is 3+4", "the root \\sqrt{9} of it", "A5", "H2O", "x > 5",
      "we know x > 5", "1/0", "1e999", "no number", "", "nan", "inf", "5^(5^(5^5))"})
    EXPECT_EQ(extract_number(answer), std::nullopt) << answer;
  EXPECT_EQ(extract_number(std::string(100'000, '7')), std::nullopt);
}

TEST(ExtractChoice, AcceptsUsualNotations) {
  for (const char* answer : {
      "B", "b", "(B)", "[B]", "B.", "B)", "B) 12", "B. Paris", "B: Paris", "B, Paris", "B (Paris)", "B - Paris",
      "**B**", "**B)** twelve", "`B`", "$B$", "\\text{B}", "\\textbf{(B)}\\ 12", "\\boxed{B}", "\\mathrm{B}",
      "Option B", "option (B)", "Choice B", "the letter B", "B is right", "I choose B", "I think it's B",
      "Option B is the correct answer", "The correct option is B", "B because A is too small", "B. A cat",
      "B. Both A and C", "B, since A fails"})
    EXPECT_EQ(extract_choice(answer), 'B') << answer;
  EXPECT_EQ(extract_choice("I"), 'I');
}

TEST(ExtractChoice, RejectsSeveralLettersAndWords) {
  for (const char* answer : {
      "A, B", "A,B", "A or B", "A and B", "(A) and (B)", "(A), (B)", "A) and B)", "A/B", "A & B", "A+B", "(A) (B)",
      "A - B", "\\text{A and B}", "Bob", "A cat", "a dog", "not B", "B is not correct", "A-level", "C++", "x = 5",
      "f(x)", "U.S.", "B2", "", "\u00e9", "I went home"})
    EXPECT_EQ(extract_choice(answer), std::nullopt) << answer;
}

}  // namespace
}  // namespace keel
