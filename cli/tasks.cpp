#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "keel/core/console.h"
#include "keel/core/files/json_file.h"
#include "keel/task/countdown.h"
#include "keel/task/task_table.h"

namespace keel::cli {
namespace {

struct TasksRequest {
  std::string name;
  int64_t difficulty = 1;
  uint64_t seed = 0;
  int64_t count = 3;
  bool held_out = false, json = false;
};

void print_table(bool json) {
  Json rows = Json::array();
  for (const TaskEntry& row : task_table()) {
    if (!json) std::printf("%-12s %s\n", row.name.c_str(), row.summary.c_str());
    rows.push_back({{"name", row.name}, {"sentence", row.summary}});
  }
  if (json) std::printf("%s\n", json_line(rows).c_str());
}

/// Makes sample `i`. Training problems have a demonstration, held-out ones do not.
Demonstration make_sample(const Task& task, const TasksRequest& request, int64_t i) {
  const auto index = static_cast<uint64_t>(i);
  if (request.held_out) return {task.problem(request.seed, index, Split::kHeldOut), ""};
  return task.demonstrate(request.seed, index, /*noisy=*/false);
}

void print_json(const Demonstration& sample, const TasksRequest& request, int64_t index) {
  Json row = {{"task", request.name},
              {"seed", request.seed},
              {"index", index},
              {"prompt", sample.problem.prompt},
              {"answer", sample.problem.answer}};
  if (!request.held_out) row["demonstration"] = sample.completion;
  std::printf("%s\n", json_line(row).c_str());
}

void print_text(const Demonstration& sample, const TasksRequest& request, int64_t index, Console& console) {
  console.heading((request.held_out ? "held-out problem " : "demonstration ") + std::to_string(index));
  console.line(sample.problem.prompt);
  if (!request.held_out) console.line(console.paint(Paint::kGreen, sample.completion));
  console.line(console.paint(Paint::kDim, "answer: " + sample.problem.answer.dump()));
}

ExitCode show_tasks(const TasksRequest& request) {
  if (request.name.empty()) {
    print_table(request.json);
    return ExitCode::kDone;
  }
  const std::string suffix = request.difficulty > 1 ? "_" + std::to_string(request.difficulty) : "";
  const TaskEntry& entry = find_task(request.name + suffix);
  const std::unique_ptr<Task> task = make_task({.name = entry.name});
  Console console;
  if (!request.json) {
    console.line(entry.name + ": " + entry.summary);
    console.line("  vocabulary of " + std::to_string(task->tokenizer().size()) + " tokens, completions of at most " +
                 std::to_string(task->max_completion_tokens()));
    for (const TaskPreset& preset : entry.presets)
      console.line("  " + preset.name + ": modulus " + std::to_string(preset.options.modulus) + ", steps " +
                   std::to_string(preset.options.steps) + " (" + preset.purpose + ")");
  }
  for (int64_t i = 0; i < request.count; ++i) {
    const Demonstration sample = make_sample(*task, request, i);
    if (request.json)
      print_json(sample, request, i);
    else
      print_text(sample, request, i, console);
  }
  return ExitCode::kDone;
}

}  // namespace

CommandHandler add_tasks(CommandLine& line) {
  const auto request = std::make_shared<TasksRequest>();
  Command command = line.add("tasks", "List the built-in tasks, or print samples of one");
  command.option("NAME", request->name, "Print samples of this task, with answers and demonstrations")
      .suggest(task_names());
  command.option("--seed", request->seed, "Seed of the samples");
  command.option("-n", request->count, "Number of samples").between(1, 1 << 24);
  command.option("--difficulty", request->difficulty, "Difficulty of countdown, 1 to 5: 3 is countdown_3")
      .between(1, CountdownTask::kMaxDifficulty);
  command.flag("--held-out", request->held_out, "Print held-out problems, which have no demonstration");
  command.flag("--json", request->json, "One JSON object per line: prompt, answer, demonstration");
  return [request] { return show_tasks(*request); };
}

}  // namespace keel::cli
