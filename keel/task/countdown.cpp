#include "keel/task/countdown.h"

#include <algorithm>
#include <array>

#include "keel/core/error.h"
#include "keel/core/random.h"
#include "keel/core/strings.h"
#include "keel/core/str_cat.h"
#include "keel/task/character_tokenizer.h"
#include "keel/task/expression.h"
#include "keel/task/final_answer.h"

namespace keel {
namespace {

constexpr std::array<CountdownTask::Level, CountdownTask::kMaxDifficulty> kCountdownLevels = {{
    {.numbers = 3, .largest = 9, .largest_target = 50, .completion = 32},
    {.numbers = 3, .largest = 25, .largest_target = 100, .completion = 40},
    {.numbers = 4, .largest = 25, .largest_target = 100, .completion = 60},
    {.numbers = 5, .largest = 50, .largest_target = 500, .completion = 85},
    {.numbers = 6, .largest = 100, .largest_target = 999, .completion = 110},
}};

constexpr int64_t kLargestBetween = 10'000;  // of results on the way
constexpr const char* kInstruction = "\nEnd with \"####\" and the answer.\n";
constexpr const char* kMark = "#### ";
constexpr uint32_t kHeldOutCountdowns = 8;
constexpr int kMaxCountdownDraws = 2000;  // each is held out with probability 1/8; only a broken hash can reach this

/// A problem with its solution written out.
struct WorkedCountdown {
  std::string question;
  Json answer;                     // the numbers and the target
  std::vector<std::string> steps;  // lines of the solution
  std::string result;              // the expression
  std::string identity;            // equal for the same numbers in another order; they share a split
};

/// A number that was given or made, and how to write it.
struct Made {
  int64_t value;
  std::string text;
  char op;  // the outermost operation; 0 for a number
};

/// As the operand of `op`, in brackets where they are needed.
std::string operand(const Made& made, char op, bool right) {
  const bool sum = made.op == '+' || made.op == '-', product = made.op == '*' || made.op == '/';
  const bool needs =
      (sum && (op == '*' || op == '/')) || (right && sum && op == '-') || (right && product && op == '/');
  return needs ? str_cat("(", made.text, ")") : made.text;
}

/// Whether the result is a whole number above 0 and not too large; then it is in `result`.
bool combine(int64_t a, char op, int64_t b, int64_t& result) {
  if (op == '/' && a % b != 0) return false;
  result = op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a / b;
  return result > 0 && result <= kLargestBetween;
}

/// Puts two of the numbers together, over and over, until one is left.
Made draw_solution(Draws& draws, std::vector<Made> numbers, std::vector<std::string>& steps) {
  constexpr std::string_view kOperators = "+-*/";
  const auto take = [&] {
    const uint32_t index = draws.below(static_cast<uint32_t>(numbers.size()));
    const Made made = numbers[index];
    numbers.erase(numbers.begin() + index);
    return made;
  };
  while (numbers.size() > 1) {
    Made left = take(), right = take();
    if (left.value < right.value) std::swap(left, right);  // so that subtraction or division is always possible
    char op = 0;
    int64_t value = 0;
    do op = kOperators[draws.below(kOperators.size())];
    while (!combine(left.value, op, right.value, value));
    steps.push_back(str_cat(left.value, " ", op, " ", right.value, " = ", value));
    numbers.push_back({value, str_cat(operand(left, op, false), " ", op, " ", operand(right, op, true)), op});
  }
  return numbers[0];
}

std::string enumeration(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i)
    text += str_cat(i == 0 ? "" : i + 1 == numbers.size() ? " and " : ", ", numbers[i]);
  return text;
}

WorkedCountdown draw_countdown(Draws& draws, const CountdownTask::Level& level) {
  for (;;) {
    std::vector<int64_t> numbers(static_cast<size_t>(level.numbers));
    for (int64_t& number : numbers) number = 1 + draws.below(static_cast<uint32_t>(level.largest));
    std::vector<Made> given;
    for (const int64_t number : numbers) given.push_back({number, std::to_string(number), 0});
    WorkedCountdown worked;
    const Made solution = draw_solution(draws, given, worked.steps);
    if (solution.value > level.largest_target) continue;
    worked.question = str_cat("Combine each of the numbers ", enumeration(numbers),
                              " exactly once, with + - * / and brackets, to make ", solution.value, ".");
    worked.answer = {{"numbers", numbers}, {"target", solution.value}};
    worked.result = solution.text;
    std::sort(numbers.begin(), numbers.end());
    worked.identity = str_cat(enumeration(numbers), " to ", solution.value);
    return worked;
  }
}

WorkedCountdown draw_countdown(Draws& draws, const CountdownTask::Level& level, Split split) {
  for (int attempt = 0; attempt < kMaxCountdownDraws; ++attempt) {
    WorkedCountdown worked = draw_countdown(draws, level);
    if (choose_split(worked.identity) == split) return worked;
  }
  fail(ExitCode::kInternal, "no problem of this split in ", kMaxCountdownDraws, " draws");
}

Problem countdown_problem(const WorkedCountdown& worked) { return {worked.question + kInstruction, worked.answer}; }

const CountdownTask::Level& level_at(int64_t difficulty) {
  if (difficulty < 1 || difficulty > CountdownTask::kMaxDifficulty)
    fail(ExitCode::kInternal, "the difficulty of countdown is ", difficulty);
  return kCountdownLevels[static_cast<size_t>(difficulty - 1)];
}

/// Whether the text is a solution: the expression alone, or with "= target" after it.
bool is_solution(const Json& answer, std::string_view text) {
  if (!answer.is_object() || !answer.contains("numbers") || !answer.contains("target")) return false;
  const Json &numbers = answer["numbers"], &target = answer["target"];
  if (!numbers.is_array() || !target.is_number_integer()) return false;
  if (const size_t equals = text.find('='); equals != std::string_view::npos) {
    if (trimmed(text.substr(equals + 1)) != target.dump()) return false;
    text = text.substr(0, equals);
  }
  std::optional<ExpressionValue> value = evaluate_expression(text, numbers.size());
  if (!value || value->denominator != 1 || Json(value->numerator) != target) return false;
  Json given = numbers;
  std::sort(given.begin(), given.end());
  std::sort(value->numbers.begin(), value->numbers.end());
  return given == Json(value->numbers);
}

}  // namespace

Split choose_split(std::string_view identity) {
  // Changing the key would move problems between the splits of published numbers.
  constexpr uint32_t kKey0 = 0x6B65656C, kKey1 = 0x73706C74;
  PhiloxBlock state = {{0, 0, 0, static_cast<uint32_t>(identity.size())}};
  for (const char c : identity) {
    state.word[2] ^= static_cast<unsigned char>(c);
    state = philox(state, kKey0, kKey1);
  }
  return state.word[0] % kHeldOutCountdowns == 0 ? Split::kHeldOut : Split::kTrain;
}

CountdownTask::CountdownTask(int64_t difficulty) : level_(level_at(difficulty)) {}

Problem CountdownTask::problem(uint64_t seed, uint64_t index, Split split) const {
  Draws draws(seed, Stream::kTaskProblems, index);
  return countdown_problem(draw_countdown(draws, level_, split));
}

Demonstration CountdownTask::demonstrate(uint64_t seed, uint64_t index, bool) const {
  Draws draws(seed, Stream::kDemonstrations, index);
  const WorkedCountdown worked = draw_countdown(draws, level_, Split::kTrain);
  std::string completion;
  for (const std::string& step : worked.steps) completion += str_cat(step, '\n');
  completion += str_cat(kMark, worked.result, kEosText);
  return {countdown_problem(worked), completion};
}

double CountdownTask::check(const Problem& problem, std::string_view completion) const {
  return is_solution(problem.answer, final_answer(completion)) ? 1 : 0;
}

/// The expression without white space; what it comes to decides nothing, for other numbers may make the same.
std::string CountdownTask::answer(std::string_view completion) const {
  const std::string text = final_answer(completion);
  std::string form;
  for (const char c : text.substr(0, text.find('=')))
    if (c != ' ' && c != '\t') form += c;
  return form;
}

Tokenizer CountdownTask::tokenizer() const {
  return character_tokenizer({"Combine each of the numbers ", ", ", " and ",
                              " exactly once, with + - * / and brackets, to make ", " + ", " - ", " * ", " / ", " = ",
                              kInstruction, kMark});
}

}  // namespace keel
