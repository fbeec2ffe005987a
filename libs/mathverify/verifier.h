#pragma once

// Compares a math answer with a reference. Text is parsed, never executed. Work is limited by a budget of steps and
// bits. Nothing is shared, so any number of threads may call these functions. docs/math-verifier.md lists the accepted
// forms.

#include <cstdint>
#include <string>
#include <string_view>

namespace keel {

struct MathVerdict {
  bool correct = false;
  std::string gold, answer;  // canonical form if parsed, else the normalized text
  uint64_t steps = 0;        // work done, at most kMaxMathSteps
};

/// A step takes about one nanosecond.
constexpr uint64_t kMaxMathSteps = 10'000'000;

/// Compares `answer` (an answer or a whole completion) with `gold` (an answer or a whole solution). Pairs that cannot
/// be decided within `max_steps` count as wrong. Never throws, for any text.
MathVerdict verify_math(std::string_view gold, std::string_view answer, uint64_t max_steps = kMaxMathSteps);

}  // namespace keel
