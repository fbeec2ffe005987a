#pragma once

#include "keel/task/worked_task.h"

namespace keel {

/// Start with the list [3, 1, 2]: sort it, then drop the first number. What is the result?
class ListsTask : public WorkedTask {
 public:
  struct Level {
    int64_t operations, fewest_numbers, most_numbers, largest;
    int64_t completion;
  };

  explicit ListsTask(const TaskOptions& options);

 private:
  Worked draw(Draws& draws) const override;
  bool accepts(const Json& answer, std::string_view text) const override;
  std::string normal_form(std::string_view text) const override;

  const Level& level_;
};

}  // namespace keel
