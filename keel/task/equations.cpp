#include "keel/task/equations.h"

#include <cstdlib>

namespace keel {
namespace {

constexpr std::array<EquationsTask::Level, WorkedTask::kMaxDifficulty> kEquationsLevels = {{
    {.largest_x = 20, .slope = false, .both_sides = false, .brackets = false, .completion = 18},
    {.largest_x = 20, .slope = true, .both_sides = false, .brackets = false, .completion = 26},
    {.largest_x = 20, .slope = true, .both_sides = true, .brackets = false, .completion = 26},
    {.largest_x = 30, .slope = true, .both_sides = false, .brackets = true, .completion = 48},
    {.largest_x = 50, .slope = true, .both_sides = true, .brackets = true, .completion = 54},
}};

constexpr int64_t kLargestConstant = 20;

/// " + 3" or " - 3".
std::string signed_text(int64_t number) { return written(number > 0 ? " + " : " - ", std::abs(number)); }

/// "3x - 4", "x", "-x + 1".
std::string linear(int64_t slope, int64_t constant) {
  const std::string x = slope == 1 ? "x" : slope == -1 ? "-x" : written(slope, "x");
  return constant == 0 ? x : written(x, signed_text(constant));
}

/// The right side of an equation, whose x may be missing.
std::string right_side(int64_t slope, int64_t constant) {
  return slope == 0 ? std::to_string(constant) : linear(slope, constant);
}

int64_t nonzero(Draws& draws) {
  const int64_t size = between(draws, 1, kLargestConstant);
  return draws.below(2) == 0 ? size : -size;
}

}  // namespace

EquationsTask::EquationsTask(const TaskOptions& options)
    : IntegerTask(level_at(kEquationsLevels, options.difficulty).completion, {"Solve ", " for x.", " = "}),
      level_(level_at(kEquationsLevels, options.difficulty)) {}

/// outer(slope x + inner) + constant = right x + rest
Worked EquationsTask::draw(Draws& draws) const {
  const int64_t x = between(draws, -level_.largest_x, level_.largest_x);
  const int64_t slope = level_.slope ? between(draws, 2, 9) : 1;
  const int64_t outer = level_.brackets ? between(draws, 2, 9) : 1;
  const int64_t inner = level_.brackets ? nonzero(draws) : 0, constant = nonzero(draws);
  int64_t right = level_.both_sides ? between(draws, 1, 9) : 0;
  if (right == outer * slope) ++right;  // or no x would be left

  const int64_t whole_slope = outer * slope, whole_constant = outer * inner + constant;
  const int64_t rest = whole_slope * x + whole_constant - right * x;
  const std::string end = " = " + right_side(right, rest);
  const std::string left =
      level_.brackets ? written(outer, "(", linear(slope, inner), ")", signed_text(constant)) : linear(slope, constant);
  Worked worked;
  worked.question = written("Solve ", left, end, " for x.");
  worked.identity = left + end;
  worked.answer = x;
  worked.result = std::to_string(x);
  if (level_.brackets) worked.steps.push_back(linear(whole_slope, whole_constant) + end);
  const int64_t coefficient = whole_slope - right;
  if (coefficient != 1) worked.steps.push_back(written(linear(coefficient, 0), " = ", rest - whole_constant));
  worked.steps.push_back("x = " + worked.result);
  return worked;
}

}  // namespace keel
