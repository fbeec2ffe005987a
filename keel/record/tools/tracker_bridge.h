#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "keel/core/json.h"
#include "keel/reward/programs/child_process.h"

namespace keel {

/// A run in Weights & Biases ("wandb") or MLflow ("mlflow"). A Python process (bridge.py) writes it through the public
/// API of the installed package.
class TrackerBridge {
 public:
  /// Starts the process. Throws an Error (exit code 2) if the package is missing. `setting` is named in errors.
  TrackerBridge(std::string tool, const std::string& python, const std::string& setting);
  /// Closes the run as stopped, unless end() closed it.
  ~TrackerBridge();

  /// Opens the run; bridge.py defines the members. Throws an Error (exit code 2) if the package fails.
  void open(const Json& run);
  /// Sends one row of metrics.jsonl. Returns the error of a failed bridge, which ignores further rows.
  std::optional<std::string> add(std::string_view row);
  /// Closes the run as "finished", "stopped" or (MLflow leaves it open) "running".
  std::optional<std::string> end(const std::string& status);
  /// The URL, or the folder of an offline run.
  const std::string& target() const { return target_; }

 private:
  Json request(std::string_view line, double seconds, bool is_last = false);
  std::optional<std::string> failure_in(const Json& reply);

  std::string tool_, python_, setting_, target_;
  ChildProcess process_;
  bool is_open_ = false;
};

}  // namespace keel
