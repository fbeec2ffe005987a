#include "keel/train/trackers.h"

#include <fstream>

#include "keel/record/run_data.h"

namespace keel {

Trackers::Trackers(const Config& config, Console& console) : console_(console) {
  for (const auto& [tool, enabled] : {std::pair{"wandb", config.record.wandb}, {"mlflow", config.record.mlflow}})
    if (enabled)
      bridges_.push_back(std::make_unique<TrackerBridge>(tool, config.reward.python, std::string("record.") + tool));
}

void Trackers::open(const std::filesystem::path& folder, Json settings, const std::string& id) {
  settings["run.id"] = id;
  for (const auto& bridge : bridges_)
    bridge->open({{"name", run_name(folder)},
                  {"id", nullptr},
                  {"group", id},
                  {"settings", settings},
                  {"begin", seconds_since_1970()},
                  {"folder", nullptr}});
}

void Trackers::add_existing_rows(const std::filesystem::path& folder) {
  if (bridges_.empty()) return;
  for (const auto& bridge : bridges_) console_.line("tracking: " + bridge->target());
  std::ifstream rows(folder / "metrics.jsonl");
  for (std::string row; std::getline(rows, row);) add(row);
}

void Trackers::add(std::string_view row) {
  for (const auto& bridge : bridges_) warn(bridge->add(row));
}

void Trackers::end(const std::string& status) {
  for (const auto& bridge : bridges_) warn(bridge->end(status));
}

void Trackers::warn(const std::optional<std::string>& failure) {
  if (failure) console_.warning(*failure + ". Training continues; `keel export` can send the rows later");
}

}  // namespace keel
