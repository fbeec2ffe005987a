#pragma once

#include "keel/task/worked_task.h"

namespace keel {

/// "What is 37 + 12 * 3?": chains of multi-digit numbers, with the usual precedence.
class ArithmeticTask : public IntegerTask {
 public:
  struct Level {
    int64_t numbers, largest, largest_factor;  // no products when the largest factor is 0
    int64_t completion;
  };

  explicit ArithmeticTask(const TaskOptions& options);

 private:
  Worked draw(Draws& draws) const override;

  const Level& level_;
};

}  // namespace keel
