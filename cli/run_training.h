#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/train/config/config.h"
#include "keel/train/run.h"

namespace keel::cli {

/// Help of --quiet for training commands.
inline constexpr const char* kQuietHelp = "Print problems and results; log.txt has everything";

enum class StartMode { kNew, kReplace, kResume };

inline constexpr const char* kWatchHelp = "Serve a live report on 127.0.0.1 during the run";

/// Prints the device, the notes on the configuration and the settings, trains, writes the report and prints the result;
/// shared by `train` and `quickstart`.
ExitCode run_training(const Config& config, const std::vector<std::string>& notes, StartMode mode, Console& console,
                      bool serve_report, const AcceptedChanges& accepted = {});

/// Returns the config.yaml of a run's folder; other names are returned unchanged.
std::string config_file(const std::string& name);

/// Reads a configuration file and applies key=value settings. `file` may be the first setting instead.
ConfigTree read_settings(const std::string& file, const std::vector<std::string>& settings);

/// The folder of a moved or copied run: that of its config.yaml, if run.dir is another folder and was not set on the
/// command line.
std::optional<std::filesystem::path> find_moved_run(const std::string& file, const ConfigTree& tree,
                                                    const Config& config);

/// Applies key=value settings of the command line. A duplicate key is an error, as in a file.
void apply_overrides(ConfigTree& tree, const std::vector<std::string>& assignments);

}  // namespace keel::cli
