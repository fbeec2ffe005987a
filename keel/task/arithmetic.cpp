#include "keel/task/arithmetic.h"

namespace keel {
namespace {

constexpr std::array<ArithmeticTask::Level, WorkedTask::kMaxDifficulty> kArithmeticLevels = {{
    {.numbers = 2, .largest = 99, .largest_factor = 0, .completion = 26},
    {.numbers = 3, .largest = 99, .largest_factor = 0, .completion = 46},
    {.numbers = 3, .largest = 999, .largest_factor = 9, .completion = 56},
    {.numbers = 4, .largest = 999, .largest_factor = 99, .completion = 88},
    {.numbers = 6, .largest = 9999, .largest_factor = 99, .completion = 160},
}};

/// A number with the sign before it.
struct Term {
  char sign;
  int64_t value;
};

}  // namespace

ArithmeticTask::ArithmeticTask(const TaskOptions& options)
    : IntegerTask(level_at(kArithmeticLevels, options.difficulty).completion, {"What is "}),
      level_(level_at(kArithmeticLevels, options.difficulty)) {}

Worked ArithmeticTask::draw(Draws& draws) const {
  Worked worked;
  std::vector<Term> terms = {{'+', between(draws, 0, level_.largest)}};
  std::string expression = std::to_string(terms[0].value);
  bool product = false;  // no number is multiplied twice
  for (int64_t i = 1; i < level_.numbers; ++i) {
    product = level_.largest_factor > 0 && !product && draws.below(2) == 0;
    const char op = product ? '*' : draws.below(2) == 0 ? '+' : '-';
    const int64_t number = product ? between(draws, 2, level_.largest_factor) : between(draws, 0, level_.largest);
    expression += written(' ', op, ' ', number);
    if (product) {
      Term& last = terms.back();
      worked.steps.push_back(calculation(last.value, '*', number, last.value * number));
      last.value *= number;
    } else {
      terms.push_back({op, number});
    }
  }
  int64_t total = terms[0].value;
  for (size_t i = 1; i < terms.size(); ++i) {
    const int64_t next = terms[i].sign == '+' ? total + terms[i].value : total - terms[i].value;
    worked.steps.push_back(calculation(total, terms[i].sign, terms[i].value, next));
    total = next;
  }
  worked.question = written("What is ", expression, "?");
  worked.answer = total;
  worked.result = std::to_string(total);
  worked.identity = expression;
  return worked;
}

}  // namespace keel
