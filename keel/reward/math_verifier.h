#pragma once

// Judges a math answer against a reference. Text is read, never executed; work is bounded by a budget of steps and
// bits; there is no state, so any number of threads may call these at once. docs/rewards.md says what is accepted.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace keel {

struct MathVerdict {
  bool correct = false;
  std::string gold, answer;  // as they were understood: canonical where parsed, else the normalized text
  uint64_t steps = 0;        // work done, at most kMaxMathSteps
};

/// A step is about a nanosecond.
constexpr uint64_t kMaxMathSteps = 10'000'000;

/// Whether `answer` (an answer or a whole completion) says the same as `gold` (an answer or a whole solution). What
/// cannot be decided within `max_steps` is wrong. Never throws on any text.
MathVerdict verify_math(std::string_view gold, std::string_view answer, uint64_t max_steps = kMaxMathSteps);

/// The final answer in a completion: the last balanced \boxed{} or \fbox{}; else what follows the last "####"; else
/// the last <answer></answer>; else what follows the last "answer is" or "answer:"; else the last line that is not
/// blank. Nothing when there is only white space.
std::optional<std::string> extract_math_answer(std::string_view completion);

}  // namespace keel
