#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/console.h"
#include "keel/record/tools/tracker_bridge.h"
#include "keel/train/config/config.h"

namespace keel {

/// The runs in Weights & Biases and MLflow that record.wandb and record.mlflow ask for. When a bridge fails, the
/// training warns and continues. It owns the bridges to them and borrows the console.
class Trackers {
 public:
  /// Starts the bridges. A missing package is an Error (exit code 2).
  Trackers(const Config& config, Console& console);
  /// Opens a new run in the group of the run's id.
  void open(const std::filesystem::path& folder, Json settings, const std::string& id);
  /// Sends the rows that a resumed run keeps.
  void add_rows_of(const std::filesystem::path& folder);
  void add(std::string_view row);
  void end(const std::string& how);

 private:
  void warn(const std::optional<std::string>& failure);

  Console& console_;
  std::vector<std::unique_ptr<TrackerBridge>> bridges_;
};

}  // namespace keel
