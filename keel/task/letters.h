#pragma once

#include "keel/task/worked_task.h"

namespace keel {

/// How many times does the letter "a" appear in "banana"? The words are made of syllables, so letters repeat.
class LettersTask : public IntegerTask {
 public:
  struct Level {
    int64_t words, fewest_syllables, most_syllables;
    int64_t completion;
  };

  explicit LettersTask(const TaskOptions& options);

 private:
  Worked draw(Draws& draws) const override;

  const Level& level_;
};

}  // namespace keel
