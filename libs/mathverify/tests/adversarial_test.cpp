// Tests of hostile answers check the step counter instead of time, because it does not depend on machine load. A step
// takes about one nanosecond, so kMaxMathSteps is about 10 ms.

#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "libs/mathverify/verifier.h"

namespace keel {
namespace {

std::string repeated(const std::string& piece, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) result += piece;
  return result;
}

std::string joined(const std::string& separator, size_t count, const std::string& before, const std::string& after) {
  std::string result;
  for (size_t i = 2; i < count + 2; ++i) result += (i == 2 ? "" : separator) + before + std::to_string(i) + after;
  return result;
}

/// Hand-made attacks: nesting, length, huge numbers, expansions, roots, unicode, boxes.
std::vector<std::string> attacks() {
  std::string braided = "2";
  for (int i = 0; i < 8; ++i) braided = "\\sqrt{" + braided + "+\\sqrt[3]{" + braided + "}}";
  return {
      repeated("(", 5000) + "1" + repeated(")", 5000), repeated("\\sqrt{", 200) + "2" + repeated("}", 200),
      repeated("\\sqrt{1+", 40) + "2" + repeated("}", 40), braided, "(x+y+z+w+1)^{60}", "(x+1)^{2000}",
      "(a+b+c+d+f+g+h)^{20}", "9^{9^{9^{9}}}", repeated("9", 3999), repeated("9", 3999) + "/" + repeated("7", 3998),
      "1500!", "((20!)!)!", "\\binom{1000000}{1900}", joined("+", 300, "\\sqrt{", "}"),
      joined("", 40, "(x+\\sqrt{", "})"), repeated("1/(1+", 55) + "x" + repeated(")", 55),
      joined("+", 20, "\\sin(", ")"), "\\cos(\\pi/97)+\\cos(\\pi/89)+\\cos(\\pi/83)", "e^{e^{e^{e}}}",
      "\\lfloor e^{100} \\rfloor", "\\lfloor 10^{300}\\pi \\rfloor", "\\sqrt[997]{2}+\\sqrt[991]{3}",
      "\\sqrt[7]{1+\\sqrt[7]{1+\\sqrt[7]{2}}}-\\sqrt[5]{1+\\sqrt[5]{3}}", joined(",", 1400, "", ""),
      "\\{" + joined(",", 1400, "", "") + "\\}", joined(", ", 300, "x^{", "}+1"),
      "\\begin{pmatrix}" + repeated(repeated("1&", 24) + "1\\\\", 25) + "\\end{pmatrix}", repeated("a", 1'000'000),
      repeated("\\boxed{", 140'000), repeated("\\boxed{1}", 110'000), repeated("(", 1'000'000),
      repeated("1", 1'000'000), repeated("answer is ", 100'000), repeated("#### ", 200'000), repeated("\xC2\xB2", 5000),
      repeated("\xD9\xA1", 5000),  // digits of another script
      repeated("\xFF\xFE", 5000),  // invalid UTF-8
      std::string(5000, '\0'), joined("\\cup", 100, "(-", ",1)"), "x" + repeated("<x", 500), repeated("\\text{", 1000),
      repeated("\\pm", 1000) + "1", repeated("|", 3000), repeated("-", 3000) + "1", repeated("x^", 2000) + "2",
      repeated("\\frac", 3000), "4951760157141521099596496895\\sqrt{4951760157141521099596496895}",
      "\\log_{" + repeated("7", 900) + "}{" + repeated("3", 900) + "}", joined("+", 40, "\\frac{1}{x+", "}"),
      "x^{1/999}+x^{1/998}+x^{1/997}", "1e4000", "1e-4000", "0." + repeated("0", 3900) + "1", "\\sin(10^{4000})",
      "\\ln(10^{4000})", "0.\\overline{" + repeated("142857", 300) + "}",
      "\\sum_{a=1}^{1000}\\sum_{b=1}^{1000}\\sum_{c=1}^{1000} abc", "\\sum_{a=1}^{900}\\frac{1}{a}",
      "\\prod_{a=1}^{900}(x+a)", "\\binom{x+y+z}{8}(n+20)!(x+y-20)!", repeated("one hundred and ", 1000) + "one",
      repeated("twenty-", 2500) + "one", repeated("1 hour ", 700), repeated("\\boxed{1} and ", 60'000),
      repeated("f(", 3000) + "x", repeated("P(A", 600) + ")=7", repeated("|x-", 50) + "1" + repeated("|", 50) + "<1",
      repeated("]1,2[\\cup", 300) + "]3,4[", repeated("<<1=1>>", 140'000), repeated("</think>", 120'000),
      repeated("\\[ ", 300'000) + "\\]", "So " + repeated("x = 2 or ", 400) + "x = 3 it is",
      "\\begin{cases}" + joined("\\\\", 100, "1&x>", "") + "\\end{cases}",
      "\\begin{cases}" + joined("\\\\", 60, "1&x<\\sqrt{", "}") + "\\\\5&\\text{otherwise}\\end{cases}",
      joined("\\cup", 60, "(\\sqrt{", "}-1,4)"), joined(", ", 200, "x>", ""), joined(", ", 60, "x\\ne\\sqrt{", "}"),
      joined(",", 300, "\\arcsin\\frac{1}{", "}"), "a" + repeated(" and b", 3000), repeated("minus ", 2000) + "one",
      repeated("A(1,", 55) + "2" + repeated(")", 55), repeated("+/-", 5000) + "1", repeated("\\", 1'000'000),
      repeated("{", 1'000'000), repeated("*5", 7000)};
}

/// Records the slowest comparison for printing; assertions use the number of steps.
class SlowestComparison {
 public:
  MathVerdict verify(const std::string& gold, const std::string& answer) {
    const std::clock_t start = std::clock();
    MathVerdict verdict = verify_math(gold, answer);
    const double milliseconds = 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    if (milliseconds > milliseconds_) {
      milliseconds_ = milliseconds;
      answer_ = answer.substr(0, 60);
    }
    return verdict;
  }
  ~SlowestComparison() { std::printf("slowest: %.1f ms of CPU time for %s\n", milliseconds_, answer_.c_str()); }

 private:
  double milliseconds_ = 0;
  std::string answer_;
};

TEST(MathAdversary, NoAttackCostsMoreThanTheBudget) {
  SlowestComparison slowest;
  for (const std::string& attack : attacks()) {
    for (const std::string& gold : {std::string("1"), std::string("x+1"), std::string("\\sqrt{2}"), attack + "+0"}) {
      const MathVerdict verdict = slowest.verify(gold, attack);
      EXPECT_LE(verdict.steps, kMaxMathSteps) << attack.substr(0, 60);
      const bool is_itself = gold == attack + "+0", contains_boxed_one = attack.find("boxed{1}") != std::string::npos;
      if (!is_itself && !contains_boxed_one) {
        EXPECT_FALSE(verdict.correct) << attack.substr(0, 60);
      }
      EXPECT_LT(verdict.gold.size() + verdict.answer.size(), 10'000U);
    }
  }
}

/// A fixed random generator, so that the same ten thousand answers are tested everywhere.
class RandomGenerator {
 public:
  explicit RandomGenerator(uint64_t seed) : state_(seed) {}
  size_t below(size_t limit) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<size_t>(state_ >> 33) % limit;
  }

 private:
  uint64_t state_;
};

std::string random_answer(RandomGenerator& random) {
  static const std::vector<std::string> pieces = {
      "1", "2", "10", "0.5", "x", "y", "e", "i", "\\pi", "+", "-", "*", "/", "^", "_", "(", ")", "[", "]", "{", "}",
      "\\{", "\\}", "|", "!", "%", ",", ";", ":", "=", "<", ">", " ", "\\frac{", "\\frac", "}{", "\\sqrt{",
      "\\sqrt[3]{", "\\sin", "\\cos(", "\\ln", "\\log_2", "\\pm", "\\cup", "\\infty", "\\text{cm}", "\\text{",
      "^\\circ", "\\left(", "\\right)", "\\le", "\\ge", "\\boxed{", "####", "answer is", "\n", "$", "\\$", "1,234",
      "e5", "9999999999", "\\begin{pmatrix}", "\\end{pmatrix}", "&", "\\\\", "\\binom{5}{2}", "\\lfloor", "\\rfloor",
      "cm", "and", "or", "sqrt", "pi", "(A)", "yes", "\xE2\x88\x9A", "\xC2\xBD", "\xE2\x88\x92", "\xEF\xBC\x95", "\xFF",
      "\\overline{3}", "0.", "\\in", "\\mid", "\\approx", "^{", "_{", "\\mathbb{R}"};
  std::string answer;
  for (size_t count = 1 + random.below(30); count > 0; --count) answer += pieces[random.below(pieces.size())];
  return answer;
}

TEST(MathAdversary, TenThousandGeneratedAnswersStayWithinTheBudgetAndNeverMatchAnImpossibleGold) {
  RandomGenerator random(7);
  SlowestComparison slowest;
  for (int i = 0; i < 10'000; ++i) {
    const std::string answer = random_answer(random);
    const MathVerdict verdict = slowest.verify("\\text{nothing like this}", answer);
    EXPECT_LE(verdict.steps, kMaxMathSteps) << answer;
    EXPECT_FALSE(verdict.correct) << answer;
    const MathVerdict other = slowest.verify(random_answer(random), answer);
    EXPECT_LE(other.steps, kMaxMathSteps) << answer;
  }
}

TEST(MathAdversary, ThreadsDoNotAffectEachOther) {
  std::vector<int> correct(4, 0);
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < correct.size(); ++thread)
    threads.emplace_back([&correct, thread] {
      for (int i = 1; i <= 200; ++i) {
        const std::string number = std::to_string(i * i + 1);
        correct[thread] += verify_math("\\sqrt{" + number + "}", number + "^{1/2}").correct;
        correct[thread] += verify_math(number, "x = " + number + "\\text{ cm}").correct;
        correct[thread] -= verify_math(number, number + "1").correct;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(correct, std::vector<int>(4, 400));
}

}  // namespace
}  // namespace keel
