#pragma once

#include "keel/task/task.h"

namespace keel {

/// Combine each of the numbers 3, 7 and 25 exactly once, with + - * / and brackets, to make 46. Any expression that
/// does so is right; it is worked out in exact fractions. Every problem has a solution: the target is made from one.
/// A prompt asks for "####" and the answer at the end; a demonstration is the solution, line by line. The reward is 1
/// wherever a pretrained model puts the right answer (final_answer.h); the stop word is not required.
class CountdownTask : public Task {
 public:
  static constexpr int64_t kMaxDifficulty = 5;

  struct Level {
    int64_t numbers, largest, largest_target;
    int64_t completion;
  };

  explicit CountdownTask(int64_t difficulty);

  Problem problem(uint64_t seed, uint64_t index, Split split) const override;
  Demonstration demonstrate(uint64_t seed, uint64_t index, bool noisy) const override;
  double check(const Problem& problem, std::string_view completion) const override;
  std::string answer(std::string_view completion) const override;
  Tokenizer tokenizer() const override;
  int64_t max_completion_tokens() const override { return level_.completion; }

 private:
  const Level& level_;
};

/// Held out: one problem in eight. The identity alone decides; no seed, index or option can move it.
Split choose_split(std::string_view identity);

}  // namespace keel
