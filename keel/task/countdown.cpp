#include "keel/task/countdown.h"

#include <algorithm>
#include <array>

#include "keel/core/error.h"
#include "keel/core/random.h"
#include "keel/core/str_cat.h"
#include "keel/core/strings.h"
#include "keel/task/character_tokenizer.h"
#include "keel/task/expression.h"
#include "keel/task/final_answer.h"

namespace keel {
namespace {

constexpr std::array<CountdownTask::Level, CountdownTask::kMaxDifficulty> kCountdownLevels = {{
    {.numbers = 3, .max_number = 9, .max_target = 50, .max_completion_tokens = 32},
    {.numbers = 3, .max_number = 25, .max_target = 100, .max_completion_tokens = 40},
    {.numbers = 4, .max_number = 25, .max_target = 100, .max_completion_tokens = 60},
    {.numbers = 5, .max_number = 50, .max_target = 500, .max_completion_tokens = 85},
    {.numbers = 6, .max_number = 100, .max_target = 999, .max_completion_tokens = 110},
}};

constexpr int64_t kMaxIntermediate = 10'000;  // also of the result; larger values are drawn again
constexpr const char* kInstruction = "\nEnd with \"####\" and the answer.\n";
constexpr const char* kAnswerMark = "#### ";
constexpr uint32_t kHeldOutOneIn = 8;
constexpr int kMaxCountdownDraws = 2000;  // each is held out with probability 1/8

/// A problem with its solution.
struct SolvedCountdown {
  std::string question;
  Json answer;                     // numbers and target
  std::vector<std::string> steps;  // lines of the solution
  std::string result;              // the expression
  std::string identity;            // does not depend on the order of the numbers; decides the split
};

/// A given number or an intermediate result, and its expression.
struct Term {
  int64_t value;
  std::string text;
  char op;  // the outermost operator; 0 for a number
};

/// Writes a term as an operand of `op`, in brackets if needed.
std::string format_operand(const Term& term, char op, bool right) {
  const bool is_sum = term.op == '+' || term.op == '-', is_product = term.op == '*' || term.op == '/';
  const bool needs_brackets =
      (is_sum && (op == '*' || op == '/')) || (right && is_sum && op == '-') || (right && is_product && op == '/');
  return needs_brackets ? str_cat("(", term.text, ")") : term.text;
}

/// Computes `result` and returns whether it is a positive integer up to kMaxIntermediate.
bool combine(int64_t a, char op, int64_t b, int64_t& result) {
  if (op == '/' && a % b != 0) return false;
  result = op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a / b;
  return result > 0 && result <= kMaxIntermediate;
}

/// Combines random pairs of terms until one is left.
Term draw_solution(RandomSequence& draws, std::vector<Term> terms, std::vector<std::string>& steps) {
  constexpr std::string_view kOperators = "+-*/";
  const auto take = [&] {
    const uint32_t index = draws.below(static_cast<uint32_t>(terms.size()));
    const Term term = terms[index];
    terms.erase(terms.begin() + index);
    return term;
  };
  while (terms.size() > 1) {
    Term left = take(), right = take();
    if (left.value < right.value) std::swap(left, right);  // so that subtraction is always possible
    char op = 0;
    int64_t value = 0;
    do op = kOperators[draws.below(kOperators.size())];
    while (!combine(left.value, op, right.value, value));
    steps.push_back(str_cat(left.value, " ", op, " ", right.value, " = ", value));
    terms.push_back(
        {value, str_cat(format_operand(left, op, false), " ", op, " ", format_operand(right, op, true)), op});
  }
  return terms[0];
}

std::string list_numbers(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i)
    text += str_cat(i == 0 ? "" : i + 1 == numbers.size() ? " and " : ", ", numbers[i]);
  return text;
}

SolvedCountdown draw_countdown(RandomSequence& draws, const CountdownTask::Level& level) {
  for (;;) {
    std::vector<int64_t> numbers(static_cast<size_t>(level.numbers));
    for (int64_t& number : numbers) number = 1 + draws.below(static_cast<uint32_t>(level.max_number));
    std::vector<Term> terms;
    for (const int64_t number : numbers) terms.push_back({number, std::to_string(number), 0});
    SolvedCountdown solved;
    const Term solution = draw_solution(draws, terms, solved.steps);
    if (solution.value > level.max_target) continue;
    solved.question = str_cat("Combine each of the numbers ", list_numbers(numbers),
                              " exactly once, with + - * / and brackets, to make ", solution.value, ".");
    solved.answer = {{"numbers", numbers}, {"target", solution.value}};
    solved.result = solution.text;
    std::sort(numbers.begin(), numbers.end());
    solved.identity = str_cat(list_numbers(numbers), " to ", solution.value);
    return solved;
  }
}

SolvedCountdown draw_countdown(RandomSequence& draws, const CountdownTask::Level& level, Split split) {
  for (int attempt = 0; attempt < kMaxCountdownDraws; ++attempt) {
    SolvedCountdown solved = draw_countdown(draws, level);
    if (choose_split(solved.identity) == split) return solved;
  }
  fail(ExitCode::kInternal, "no problem of this split in ", kMaxCountdownDraws, " draws");
}

Problem countdown_problem(const SolvedCountdown& solved) { return {solved.question + kInstruction, solved.answer}; }

const CountdownTask::Level& level_at(int64_t difficulty) {
  if (difficulty < 1 || difficulty > CountdownTask::kMaxDifficulty)
    fail(ExitCode::kInternal, "the difficulty of countdown is ", difficulty);
  return kCountdownLevels[static_cast<size_t>(difficulty - 1)];
}

/// Returns whether the text is a correct expression, optionally followed by "= target".
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
  Json expected = numbers;
  std::sort(expected.begin(), expected.end());
  std::sort(value->numbers.begin(), value->numbers.end());
  return expected == Json(value->numbers);
}

}  // namespace

Split choose_split(std::string_view identity) {
  // The keys are part of published results: another key gives other splits.
  constexpr uint32_t kKey0 = 0x6B65656C, kKey1 = 0x73706C74;
  PhiloxBlock state = {{0, 0, 0, static_cast<uint32_t>(identity.size())}};
  for (const char c : identity) {
    state.word[2] ^= static_cast<unsigned char>(c);
    state = philox(state, kKey0, kKey1);
  }
  return state.word[0] % kHeldOutOneIn == 0 ? Split::kHeldOut : Split::kTrain;
}

CountdownTask::CountdownTask(int64_t difficulty) : level_(level_at(difficulty)) {}

Problem CountdownTask::problem(uint64_t seed, uint64_t index, Split split) const {
  RandomSequence draws(seed, Stream::kTaskProblems, index);
  return countdown_problem(draw_countdown(draws, level_, split));
}

Demonstration CountdownTask::demonstrate(uint64_t seed, uint64_t index, bool) const {
  RandomSequence draws(seed, Stream::kDemonstrations, index);
  const SolvedCountdown solved = draw_countdown(draws, level_, Split::kTrain);
  std::string completion;
  for (const std::string& step : solved.steps) completion += str_cat(step, '\n');
  completion += str_cat(kAnswerMark, solved.result, kEosText);
  return {countdown_problem(solved), completion};
}

double CountdownTask::check(const Problem& problem, std::string_view completion) const {
  return is_solution(problem.answer, final_answer(completion)) ? 1 : 0;
}

/// Returns the expression without white space. The expression, not its value, identifies an
/// answer: a wrong expression can have the right value.
std::string CountdownTask::answer(std::string_view completion) const {
  const std::string text = final_answer(completion);
  std::string expression;
  for (const char c : text.substr(0, text.find('=')))
    if (c != ' ' && c != '\t') expression += c;
  return expression;
}

Tokenizer CountdownTask::tokenizer() const {
  return character_tokenizer({"Combine each of the numbers ", ", ", " and ",
                              " exactly once, with + - * / and brackets, to make ", " + ", " - ", " * ", " / ", " = ",
                              kInstruction, kAnswerMark});
}

}  // namespace keel
