#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "keel/core/random.h"
#include "keel/core/written.h"
#include "keel/task/task.h"

namespace keel {

/// A problem with its solution written out.
struct Worked {
  std::string question;            // in words that people and pretrained models understand
  Json answer;                     // what accepts() needs
  std::vector<std::string> steps;  // lines of the solution
  std::string result;              // the final answer
  std::string identity;            // equal for problems that are the same in other words; they share a split
};

/// Held out: one problem in eight, told by its identity alone; no seed, index or option can move it.
Split split_of(std::string_view identity);

/// What the tasks with a question in words share. A prompt is the question and the wish that "####" and the answer come
/// last; a demonstration is the solution, line by line. The reward is 1 when the final answer is right, however it was
/// reached, and wherever a pretrained model likes to put it (final_answer.h); the stop word is not required.
class WorkedTask : public Task {
 public:
  static constexpr int64_t kMaxDifficulty = 5;

  Problem problem(uint64_t seed, uint64_t index, Split split) const final;
  Demonstration demonstrate(uint64_t seed, uint64_t index, bool noisy) const final;
  double check(const Problem& problem, std::string_view completion) const final;
  std::string answer(std::string_view completion) const final;
  Tokenizer tokenizer() const final;
  int64_t completion_limit() const final { return completion_limit_; }

 protected:
  /// `phrases`: the fixed parts of questions, which the task's tokenizer makes one token each.
  WorkedTask(int64_t completion_limit, std::vector<std::string> phrases);

 private:
  virtual Worked draw(Draws& draws) const = 0;

  /// Whether the text of a final answer is right; `answer` is the problem's. Never throws.
  virtual bool accepts(const Json& answer, std::string_view text) const = 0;

  /// The text of a final answer in one spelling for all that mean the same. Never throws.
  virtual std::string normal_form(std::string_view text) const { return std::string(text); }

  Worked draw(Draws& draws, Split split) const;

  int64_t completion_limit_;
  std::vector<std::string> phrases_;
};

/// Whether the text is the integer that `answer` holds.
bool is_integer(const Json& answer, std::string_view text);

/// One whose answers are integers.
class IntegerTask : public WorkedTask {
 protected:
  using WorkedTask::WorkedTask;

 private:
  bool accepts(const Json& answer, std::string_view text) const final { return is_integer(answer, text); }
  /// "12" for "12", "x = 12" and "3 + 9 = 12"; what is no integer stays as it is.
  std::string normal_form(std::string_view text) const final;
};

/// The sizes of a difficulty; an Error when it is not 1 to kMaxDifficulty.
void check_difficulty(int64_t difficulty);
template <class Level>
const Level& level_at(const std::array<Level, WorkedTask::kMaxDifficulty>& levels, int64_t difficulty) {
  check_difficulty(difficulty);
  return levels[difficulty - 1];
}

/// Uniform in low..high.
int64_t between(Draws& draws, int64_t low, int64_t high);

/// A word of `syllables` pairs of a consonant and a vowel, such as "banana".
std::string draw_word(Draws& draws, int64_t syllables);

/// "3 + 4 = 7".
std::string calculation(int64_t left, char op, int64_t right, int64_t result);

/// The steps as one English clause, "a, then b, then c".
std::string then_list(const std::vector<std::string>& steps);

}  // namespace keel
