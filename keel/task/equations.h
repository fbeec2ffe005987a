#pragma once

#include "keel/task/worked_task.h"

namespace keel {

/// "Solve 3(2x - 4) + 5 = 2x + 13 for x.": linear equations with a whole solution; the easier ones have fewer parts.
class EquationsTask : public IntegerTask {
 public:
  struct Level {
    int64_t largest_x;
    bool slope, both_sides, brackets;
    int64_t completion;
  };

  explicit EquationsTask(const TaskOptions& options);

 private:
  Worked draw(Draws& draws) const override;

  const Level& level_;
};

}  // namespace keel
