#include "keel/task/countdown.h"

#include <algorithm>

#include "keel/task/expression.h"

namespace keel {
namespace {

constexpr std::array<CountdownTask::Level, WorkedTask::kMaxDifficulty> kCountdownLevels = {{
    {.numbers = 3, .largest = 9, .largest_target = 50, .completion = 32},
    {.numbers = 3, .largest = 25, .largest_target = 100, .completion = 40},
    {.numbers = 4, .largest = 25, .largest_target = 100, .completion = 60},
    {.numbers = 5, .largest = 50, .largest_target = 500, .completion = 85},
    {.numbers = 6, .largest = 100, .largest_target = 999, .completion = 110},
}};

constexpr int64_t kLargestBetween = 10'000;  // of results on the way

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
  return needs ? written("(", made.text, ")") : made.text;
}

/// Whether a whole number above 0, and not too large a one, comes out; then it is in `result`.
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
    steps.push_back(calculation(left.value, op, right.value, value));
    numbers.push_back({value, written(operand(left, op, false), " ", op, " ", operand(right, op, true)), op});
  }
  return numbers[0];
}

std::string enumeration(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i)
    text += written(i == 0 ? "" : i + 1 == numbers.size() ? " and " : ", ", numbers[i]);
  return text;
}

}  // namespace

CountdownTask::CountdownTask(const TaskOptions& options)
    : WorkedTask(level_at(kCountdownLevels, options.difficulty).completion,
                 {"Combine each of the numbers ", ", ", " and ", " exactly once, with + - * / and brackets, to make ",
                  " + ", " - ", " * ", " / ", " = "}),
      level_(level_at(kCountdownLevels, options.difficulty)) {}

Worked CountdownTask::draw(Draws& draws) const {
  for (;;) {
    std::vector<int64_t> numbers(static_cast<size_t>(level_.numbers));
    for (int64_t& number : numbers) number = between(draws, 1, level_.largest);
    std::vector<Made> given;
    for (const int64_t number : numbers) given.push_back({number, std::to_string(number), 0});
    Worked worked;
    const Made solution = draw_solution(draws, given, worked.steps);
    if (solution.value > level_.largest_target) continue;
    worked.question = written("Combine each of the numbers ", enumeration(numbers),
                              " exactly once, with + - * / and brackets, to make ", solution.value, ".");
    worked.answer = {{"numbers", numbers}, {"target", solution.value}};
    worked.result = solution.text;
    std::sort(numbers.begin(), numbers.end());
    worked.identity = written(enumeration(numbers), " to ", solution.value);
    return worked;
  }
}

/// The expression alone, or with "= target" after it.
bool CountdownTask::accepts(const Json& answer, std::string_view text) const {
  if (!answer.is_object() || !answer.contains("numbers") || !answer.contains("target")) return false;
  const Json &wanted = answer["numbers"], &target = answer["target"];
  if (!wanted.is_array() || !target.is_number_integer()) return false;
  if (const size_t equals = text.find('='); equals != std::string_view::npos) {
    if (!is_integer(target, text.substr(equals + 1))) return false;
    text = text.substr(0, equals);
  }
  std::optional<ExpressionValue> value = evaluate_expression(text, wanted.size());
  if (!value || value->denominator != 1 || Json(value->numerator) != target) return false;
  Json given = wanted;
  std::sort(given.begin(), given.end());
  std::sort(value->numbers.begin(), value->numbers.end());
  return given == Json(value->numbers);
}

/// The expression without white space; what it comes to decides nothing, for other numbers may make the same.
std::string CountdownTask::normal_form(std::string_view text) const {
  std::string form;
  for (const char c : text.substr(0, text.find('=')))
    if (c != ' ' && c != '\t') form += c;
  return form;
}

}  // namespace keel
