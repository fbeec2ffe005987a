#pragma once

#include "keel/task/worked_task.h"

namespace keel {

/// Combine each of the numbers 3, 7 and 25 exactly once, with + - * / and brackets, to make 46. Any expression that
/// does so is right; it is worked out in exact fractions. Every problem has a solution: the target is made from one.
class CountdownTask : public WorkedTask {
 public:
  struct Level {
    int64_t numbers, largest, largest_target;
    int64_t completion;
  };

  explicit CountdownTask(const TaskOptions& options);

 private:
  Worked draw(Draws& draws) const override;
  bool accepts(const Json& answer, std::string_view text) const override;
  std::string normal_form(std::string_view text) const override;

  const Level& level_;
};

}  // namespace keel
