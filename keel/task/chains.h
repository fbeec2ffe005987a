#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/random.h"
#include "keel/task/task.h"

namespace keel {

/// x0 o1 b1 ... on bn: numbers 0..modulus-1 and operators '+', '-', '*', worked out from left to right.
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

/// One chain in eight, told by its contents alone: no seed, index or option can move a chain to the other split.
Split chain_split(const Chain& chain);

/// Worded arithmetic chains. A demonstration writes every step as "word a op b = c ;" and ends with "ANS c <eos>".
/// The words follow Zipf's law, so a policy can change the probability of rare tokens that matter: after the rare
/// careful words the demonstrations are nearly free of mistakes. The reward is 1 for the right answer, with no credit
/// for steps.
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

  /// The connective words, the most used first.
  const std::vector<std::string>& words() const { return words_; }

  /// Whether demonstrations make few mistakes after the word of this rank.
  bool is_careful(int64_t rank) const;

 private:
  Chain draw_chain(Draws& draws) const;
  Chain draw_chain(Draws& draws, Split split) const;
  int64_t draw_word(Draws& draws) const;

  TaskOptions options_;
  std::vector<std::string> words_;
  std::vector<double> cumulative_;  // of the words' probabilities
};

}  // namespace keel
