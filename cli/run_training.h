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

/// What --quiet does for a command that trains.
inline constexpr const char* kQuietHelp =
    "Print only warnings, errors and the result: accuracy or loss before and after, and the checkpoint. log.txt has "
    "the rest";

enum class StartMode { kNew, kReplace, kResume };

inline constexpr const char* kWatchHelp =
    "Serve the report, live, on 127.0.0.1 as long as the run goes on; its address is printed at the start";

/// Says what will be done, trains, writes the report and prints what came of it; shared by `train` and `quickstart`.
ExitCode run_training(const Config& config, StartMode mode, Console& console, bool watched,
                      const AcceptedChanges& accepted = {});

/// A configuration file with the key=value settings behind it, or those alone: the first word may be one.
ConfigTree read_settings(const std::string& file, const std::vector<std::string>& settings);

/// The run that a configuration lies in, where its run.dir is another folder and none is typed: the run was moved, or
/// copied.
std::optional<std::filesystem::path> run_around(const std::string& file, const ConfigTree& tree, const Config& config);

/// Applies key=value settings of the command line; a key that stands there twice is an error, as it is in a file.
void apply_overrides(ConfigTree& tree, const std::vector<std::string>& assignments);

}  // namespace keel::cli
