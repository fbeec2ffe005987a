#pragma once

#include "keel/task/worked_task.h"

namespace keel {

/// "What is (7 * 8 + 5) mod 6?"; powers at the higher difficulties, "What is (7^5 + 3) mod 11?".
class ModularTask : public IntegerTask {
 public:
  struct Level {
    int64_t largest, largest_modulus, largest_exponent;  // products when the largest exponent is 0
    int64_t completion;
  };

  explicit ModularTask(const TaskOptions& options);

 private:
  Worked draw(Draws& draws) const override;

  const Level& level_;
};

}  // namespace keel
