#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keel/task/task.h"

namespace keel {

/// Options that have a name, because documents and studies refer to them.
struct TaskPreset {
  std::string name;
  std::string use;
  TaskOptions options;
};

/// One built-in task.
struct TaskEntry {
  std::string name;
  std::string sentence;
  std::vector<TaskPreset> presets;
  std::unique_ptr<Task> (*make)(const TaskOptions&);
  bool own_vocabulary = false;  // its prompts and answers are words of its own, and mean nothing to other models
};

/// All built-in tasks; a new task is a new row.
const std::vector<TaskEntry>& task_table();

std::vector<std::string> task_names();

/// The row of that name; an Error (kBadConfiguration) when there is none.
const TaskEntry& find_task(std::string_view name);

/// The task that the options name; an Error (kBadConfiguration) when there is none, its options make no sense, or they
/// set what it does not read.
std::unique_ptr<Task> make_task(const TaskOptions& options);

}  // namespace keel
