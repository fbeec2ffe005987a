#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/json.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

class OptionTable;

/// The EOS token in texts of tasks. A loaded model may have another one.
inline constexpr std::string_view kEosText = "<eos>";

/// Every problem belongs to one of two splits, whatever the seed.
enum class Split { kTrain, kHeldOut };

/// A prompt as text, and the data that check() needs.
struct Problem {
  std::string prompt;
  Json answer;
};

/// A problem with a completion that ends with kEosText.
struct Demonstration {
  Problem problem;
  std::string completion;
};

/// A generator of verifiable problems. All functions are pure; there is no generator state.
class Task {
 public:
  virtual ~Task() = default;

  /// Returns problem `index` of the stream of `seed`.
  virtual Problem problem(uint64_t seed, uint64_t index, Split split) const = 0;

  /// Returns demonstration `index`, of a training problem. `noisy` ones contain the mistakes set by the task's options.
  virtual Demonstration demonstrate(uint64_t seed, uint64_t index, bool noisy) const = 0;

  /// Returns the reward. `completion` includes kEosText if it was generated. Never throws: invalid text gets 0.
  virtual double check(const Problem& problem, std::string_view completion) const = 0;

  /// Returns the final answer in a normal form, or "" if there is none. Never throws.
  virtual std::string answer(std::string_view completion) const = 0;

  /// The maximum reward of check(); the minimum is 0.
  virtual double max_reward() const { return 1; }

  /// A small vocabulary that covers prompts and demonstrations, for randomly initialised models.
  virtual Tokenizer tokenizer() const = 0;

  /// The maximum number of tokens of a completion.
  virtual int64_t max_completion_tokens() const = 0;
};

/// Selects a task and its size.
struct TaskOptions {
  std::string name = "chains";
  int64_t modulus = 5;
  int64_t steps = 4;
  int64_t words = 12;
  int64_t careful = 3;
  double error = 0.4;
  bool mode = false;

  void describe(OptionTable& table);
};

/// Tokenizes a completion, with `stop_id` for kEosText.
std::vector<int32_t> encode_completion(const Tokenizer& tokenizer, std::string_view completion, int32_t stop_id);

}  // namespace keel
