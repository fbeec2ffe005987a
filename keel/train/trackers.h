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

/// Sends a run's metrics to Weights & Biases and MLflow, if record.wandb and record.mlflow are set. If a bridge fails,
/// training warns and continues. It owns the bridges and borrows the console.
class Trackers {
 public:
  /// Starts the bridges. A missing package is an Error (exit code 2).
  Trackers(const Config& config, Console& console);
  /// Opens a new tracker run in the group `id`.
  void open(const std::filesystem::path& folder, Json settings, const std::string& id);
  /// Sends the existing rows of a resumed run.
  void add_existing_rows(const std::filesystem::path& folder);
  void add(std::string_view row);
  void end(const std::string& status);

 private:
  void warn(const std::optional<std::string>& failure);

  Console& console_;
  std::vector<std::unique_ptr<TrackerBridge>> bridges_;
};

}  // namespace keel
