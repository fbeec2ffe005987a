#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/random.h"
#include "keel/task/task.h"

namespace keel {

/// x0 o1 b1 ... on bn: numbers 0..modulus-1 and operators '+', '-', '*', evaluated from left to right.
struct Chain {
  struct Step {
    char op;
    int64_t operand;
  };
  int64_t start = 0;
  std::vector<Step> steps;
};

/// (value op operand) mod modulus, in 0..modulus-1.
int64_t chain_step(int64_t value, Chain::Step step, int64_t modulus);
int64_t chain_value(const Chain& chain, int64_t modulus);

/// "<bos> x0 o1 b1 ... on bn =".
std::string chain_prompt(const Chain& chain);

/// Holds out one chain in eight. The split depends on the contents only, not on seed, index or options.
Split chain_split(const Chain& chain);

/// Arithmetic chains in words. A demonstration writes every step as "word a op b = c ;" and ends with "ANS c <eos>".
/// Words follow Zipf's law. After the rare careful words demonstrations have few mistakes, so the policy can gain by
/// raising the probability of rare tokens. The reward is 1 for the right answer, without credit for steps.
class ChainsTask : public Task {
 public:
  static constexpr int64_t kMinModulus = 2, kMaxModulus = 10000, kMaxSteps = 1000, kMaxWords = 10000, kMaxCareful = 12;

  explicit ChainsTask(const TaskOptions& options);

  Problem problem(uint64_t seed, uint64_t index, Split split) const override;
  Demonstration demonstrate(uint64_t seed, uint64_t index, bool noisy) const override;
  double check(const Problem& problem, std::string_view completion) const override;
  std::string answer(std::string_view completion) const override;
  Tokenizer tokenizer() const override;
  int64_t max_completion_tokens() const override { return 7 * options_.steps + 5; }

  /// The connective words, most frequent first.
  const std::vector<std::string>& words() const { return words_; }

  /// Returns whether demonstrations make few mistakes after the word of this rank.
  bool is_careful(int64_t rank) const;

 private:
  Chain draw_chain(RandomSequence& draws) const;
  Chain draw_chain(RandomSequence& draws, Split split) const;
  int64_t draw_word(RandomSequence& draws) const;

  TaskOptions options_;
  std::vector<std::string> words_;
  std::vector<double> cumulative_;  // cumulative word probabilities
};

}  // namespace keel
