#pragma once

#include "keel/task/worked_task.h"

namespace keel {

/// How many times does the letter "a" appear in "banana"? The words are made of syllables, so letters repeat.
class LettersTask : public WorkedTask {
 public:
  struct Level {
    int64_t words, fewest_syllables, most_syllables;
    int64_t completion;
  };

  explicit LettersTask(const TaskOptions& options);

 private:
  Worked draw(Draws& draws) const override;
  bool accepts(const Json& answer, std::string_view text) const override { return is_integer(answer, text); }
  std::string normal_form(std::string_view text) const override { return integer_form(text); }

  const Level& level_;
};

}  // namespace keel
