#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keel/task/task.h"

namespace keel {

/// Named options that documents and studies refer to.
struct TaskPreset {
  std::string name;
  std::string purpose;
  TaskOptions options;
};

/// One built-in task.
struct TaskEntry {
  std::string name;
  std::string summary;
  std::vector<TaskPreset> presets;
  std::unique_ptr<Task> (*make)(const TaskOptions&);
  bool own_vocabulary = false;  // prompts and answers use a vocabulary that pretrained models do not have
};

/// All built-in tasks; add a new task here.
const std::vector<TaskEntry>& task_table();

std::vector<std::string> task_names();

/// Returns the task of that name, or fails (kBadConfiguration).
const TaskEntry& find_task(std::string_view name);

/// Creates the task. Fails (kBadConfiguration) if the name is unknown, an option is invalid, or the task ignores it.
std::unique_ptr<Task> make_task(const TaskOptions& options);

}  // namespace keel
