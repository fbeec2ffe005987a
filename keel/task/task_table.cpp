#include "keel/task/task_table.h"

#include <algorithm>
#include <array>

#include "keel/core/error.h"
#include "keel/core/nearest.h"
#include "keel/core/strings.h"
#include "keel/task/chains.h"
#include "keel/task/countdown.h"

namespace keel {
namespace {

template <int64_t kDifficulty>
TaskEntry countdown_entry(const char* name, const char* numbers) {
  return {name,
          std::string("Combine ") + numbers + " with + - * / and brackets, each exactly once, to make a target.",
          {},
          [](const TaskOptions&) -> std::unique_ptr<Task> { return std::make_unique<CountdownTask>(kDifficulty); }};
}

/// Fails if an option is set that the task ignores.
void reject_ignored_options(const TaskOptions& options) {
  const TaskOptions defaults;
  const auto reject_if = [&](bool is_set, const char* key) {
    if (is_set)
      fail(ExitCode::kBadConfiguration, "task.", key, " is set, but the task ", options.name,
           " does not use it; remove it, and choose the size by name: countdown, countdown_2, ...");
  };
  if (options.name == "chains") return;
  reject_if(options.modulus != defaults.modulus, "modulus");
  reject_if(options.steps != defaults.steps, "steps");
  reject_if(options.words != defaults.words, "words");
  reject_if(options.careful != defaults.careful, "careful");
  reject_if(options.error != defaults.error, "error");
  reject_if(options.mode != defaults.mode, "mode");
}

}  // namespace

const std::vector<TaskEntry>& task_table() {
  static const std::vector<TaskEntry> kTable = {
      {"chains",
       "Arithmetic chains in words: evaluate x0 o1 b1 ... on bn modulo p, one step at a time.",
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
       [](const TaskOptions& options) -> std::unique_ptr<Task> { return std::make_unique<ChainsTask>(options); },
       /*own_vocabulary=*/true},
      countdown_entry<1>("countdown", "three numbers up to 9"),
      countdown_entry<2>("countdown_2", "three numbers up to 25"),
      countdown_entry<3>("countdown_3", "four numbers up to 25"),
      countdown_entry<4>("countdown_4", "five numbers up to 50"),
      countdown_entry<5>("countdown_5", "six numbers up to 100"),
  };
  return kTable;
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const TaskEntry& task : task_table()) names.push_back(task.name);
  return names;
}

const TaskEntry& find_task(std::string_view name) {
  for (const TaskEntry& task : task_table())
    if (task.name == name) return task;
  static constexpr std::array<std::string_view, 6> kRemoved = {"arithmetic", "modular", "equations",
                                                               "letters",    "strings", "lists"};
  if (std::find(kRemoved.begin(), kRemoved.end(), name) != kRemoved.end())
    fail(ExitCode::kBadConfiguration, "task.name \"", name,
         "\" was removed. Fix: use examples/reasoning_gym/, which has prompts and rewards of this kind");
  const std::vector<std::string> names = task_names();
  const std::optional<std::string> near = nearest_name(name, names);
  fail(ExitCode::kBadConfiguration, "task.name \"", name, "\" is unknown; ", near ? "did you mean " + *near + "? " : "",
       "The built-in tasks are: ", joined(names));
}

std::unique_ptr<Task> make_task(const TaskOptions& options) {
  const TaskEntry& task = find_task(options.name);
  reject_ignored_options(options);
  return task.make(options);
}

}  // namespace keel
