#pragma once

#include "keel/task/worked_task.h"

namespace keel {

/// Start with "banana": reverse it, then remove every "a". What is the result?
class StringsTask : public WorkedTask {
 public:
  struct Level {
    int64_t operations, fewest_syllables, most_syllables;
    int64_t completion;
  };

  explicit StringsTask(const TaskOptions& options);

 private:
  Worked draw(Draws& draws) const override;
  bool accepts(const Json& answer, std::string_view text) const override;

  const Level& level_;
};

}  // namespace keel
