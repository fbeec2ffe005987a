#include "keel/task/tasks.h"

#include "keel/core/error.h"
#include "keel/task/chains.h"

namespace keel {

const std::vector<TaskRow>& task_table() {
  static const std::vector<TaskRow> kTable = {
      {"chains",
       "Worded arithmetic chains: work out x0 o1 b1 ... on bn modulo p, one worded step at a time.",
       {
           {"T1",
            "studies, GPU size",
            {.name = "chains", .modulus = 13, .steps = 6, .words = 24, .careful = 6, .error = 0.2, .mode = false}},
           {"T2",
            "clipped-token study",
            {.name = "chains", .modulus = 13, .steps = 6, .words = 24, .careful = 6, .error = 0.4, .mode = true}},
           {"Q5",
            "quickstart",
            {.name = "chains", .modulus = 5, .steps = 4, .words = 12, .careful = 3, .error = 0.4, .mode = false}},
           {"Q7",
            "studies, CPU size",
            {.name = "chains", .modulus = 7, .steps = 4, .words = 12, .careful = 3, .error = 0.3, .mode = false}},
       },
       [](const TaskOptions& options) -> std::unique_ptr<Task> { return std::make_unique<ChainsTask>(options); }},
  };
  return kTable;
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const TaskRow& row : task_table()) names.push_back(row.name);
  return names;
}

std::unique_ptr<Task> make_task(const TaskOptions& options) {
  std::string known;
  for (const TaskRow& row : task_table()) {
    if (row.name == options.name) return row.make(options);
    known += (known.empty() ? "" : ", ") + row.name;
  }
  fail(ExitCode::kBadConfiguration, "task.name is \"", options.name, "\"; the built-in tasks are: ", known);
}

}  // namespace keel
