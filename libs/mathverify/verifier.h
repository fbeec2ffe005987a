#pragma once

// Judges a math answer against a reference. Text is read, never executed; work is bounded by a budget of steps and
// bits; there is no state, so any number of threads may call these at once. docs/math-verifier.md lists the accepted forms.

#include <cstdint>
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

}  // namespace keel
