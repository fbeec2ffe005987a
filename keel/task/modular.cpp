#include "keel/task/modular.h"

namespace keel {
namespace {

constexpr std::array<ModularTask::Level, WorkedTask::kMaxDifficulty> kModularLevels = {{
    {.largest = 9, .largest_modulus = 9, .largest_exponent = 0, .completion = 46},
    {.largest = 20, .largest_modulus = 20, .largest_exponent = 0, .completion = 58},
    {.largest = 99, .largest_modulus = 99, .largest_exponent = 0, .completion = 64},
    {.largest = 20, .largest_modulus = 30, .largest_exponent = 5, .completion = 115},
    {.largest = 99, .largest_modulus = 99, .largest_exponent = 10, .completion = 220},
}};

/// base^exponent mod modulus, one multiplication per line.
int64_t power(int64_t base, int64_t exponent, int64_t modulus, std::vector<std::string>& steps) {
  int64_t result = base;
  for (int64_t i = 1; i < exponent; ++i) {
    const int64_t next = result * base % modulus;
    steps.push_back(written(result, " * ", base, " mod ", modulus, " = ", next));
    result = next;
  }
  return result;
}

}  // namespace

ModularTask::ModularTask(const TaskOptions& options)
    : IntegerTask(level_at(kModularLevels, options.difficulty).completion, {"What is (", " mod "}),
      level_(level_at(kModularLevels, options.difficulty)) {}

Worked ModularTask::draw(Draws& draws) const {
  Worked worked;
  const int64_t base = between(draws, 2, level_.largest), added = between(draws, 0, level_.largest);
  const int64_t modulus = between(draws, 2, level_.largest_modulus);
  std::string expression;
  int64_t product = 0;
  if (level_.largest_exponent > 0) {
    const int64_t exponent = between(draws, 3, level_.largest_exponent);
    expression = written(base, "^", exponent);
    product = power(base, exponent, modulus, worked.steps);
  } else {
    const int64_t factor = between(draws, 2, level_.largest);
    expression = written(base, " * ", factor);
    product = base * factor;
    worked.steps.push_back(calculation(base, '*', factor, product));
  }
  const int64_t sum = product + added, result = sum % modulus;
  worked.steps.push_back(calculation(product, '+', added, sum));
  worked.steps.push_back(written(sum, " mod ", modulus, " = ", result));
  worked.identity = written("(", expression, " + ", added, ") mod ", modulus);
  worked.question = written("What is ", worked.identity, "?");
  worked.answer = result;
  worked.result = std::to_string(result);
  return worked;
}

}  // namespace keel
