#pragma once

#include "keel/task/worked_task.h"

namespace keel {

/// "Solve 3(2x - 4) + 5 = 2x + 13 for x.": linear equations with a whole solution; the easier ones have fewer parts.
class EquationsTask : public WorkedTask {
 public:
  struct Level {
    int64_t largest_x;
    bool slope, both_sides, brackets;
    int64_t completion;
  };

  explicit EquationsTask(const TaskOptions& options);

 private:
  Worked draw(Draws& draws) const override;
  bool accepts(const Json& answer, std::string_view text) const override { return is_integer(answer, text); }
  std::string normal_form(std::string_view text) const override { return integer_form(text); }

  const Level& level_;
};

}  // namespace keel
