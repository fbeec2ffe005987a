#pragma once

#include "keel/task/task.h"

namespace keel {

/// "Combine each of the numbers 3, 7 and 25 exactly once, with + - * / and brackets, to make 46." Every problem has a
/// solution, and any correct expression counts; it is evaluated in exact fractions. A prompt asks for "####" and the
/// answer at the end. A demonstration is the solution, line by line. The reward is 1 if final_answer() is right; an EOS
/// token is not required.
class CountdownTask : public Task {
 public:
  static constexpr int64_t kMaxDifficulty = 5;

  struct Level {
    int64_t numbers, max_number, max_target;
    int64_t max_completion_tokens;
  };

  explicit CountdownTask(int64_t difficulty);

  Problem problem(uint64_t seed, uint64_t index, Split split) const override;
  Demonstration demonstrate(uint64_t seed, uint64_t index, bool noisy) const override;
  double check(const Problem& problem, std::string_view completion) const override;
  std::string answer(std::string_view completion) const override;
  Tokenizer tokenizer() const override;
  int64_t max_completion_tokens() const override { return level_.max_completion_tokens; }

 private:
  const Level& level_;
};

/// Holds out one problem in eight. The split depends on `identity` only, not on seed, index or options.
Split choose_split(std::string_view identity);

}  // namespace keel
