#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/json.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

class OptionTable;

/// What ends a completion in texts; tokenizers have their own token for it.
inline constexpr std::string_view kEosText = "<eos>";

/// Whether problems are for training or were never seen there; each problem belongs to one of the two, whatever the
/// seed.
enum class Split { kTrain, kHeldOut };

/// A prompt as text for the tokenizer, and what the checker needs to judge a completion.
struct Problem {
  std::string prompt;
  Json answer;
};

/// A problem with a worked completion, which ends with the stop word.
struct Demonstration {
  Problem problem;
  std::string completion;
};

/// A generator of verifiable problems. Everything is a pure function of its arguments; there is no generator state.
class Task {
 public:
  virtual ~Task() = default;

  /// Problem number `index` of the stream that `seed` names.
  virtual Problem problem(uint64_t seed, uint64_t index, Split split) const = 0;

  /// Demonstration number `index`, always of a training problem; `noisy` allows the mistakes the task's options ask
  /// for.
  virtual Demonstration demonstrate(uint64_t seed, uint64_t index, bool noisy) const = 0;

  /// The reward. `completion` includes the stop word if it was generated. Never throws: bad text is worth 0.
  virtual double check(const Problem& problem, std::string_view completion) const = 0;

  /// The final answer that check() judges, in one spelling for all that mean the same to it; empty where it finds none.
  /// Never throws.
  virtual std::string answer(std::string_view completion) const = 0;

  /// The largest reward that check() can give; the least is 0.
  virtual double max_reward() const { return 1; }

  /// A small vocabulary that covers prompts and demonstrations, for models made from nothing.
  virtual Tokenizer tokenizer() const = 0;

  /// The number of tokens after which a completion is cut off.
  virtual int64_t max_completion_tokens() const = 0;
};

/// Which task, and its size.
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

/// The tokens of a demonstration's completion: its text, and the model's own stop token for the stop word.
std::vector<int32_t> encode_completion(const Tokenizer& tokenizer, std::string_view completion, int32_t stop_id);

}  // namespace keel
