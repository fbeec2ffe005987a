#pragma once

#include <string>
#include <vector>

#include "keel/core/options/options.h"

namespace keel {

struct Config;
struct SftOptions;

/// Converts the settings of `keel sft`: without sft.files, the files of section data become sft.files, and there is no
/// RL phase. The result is an ordinary configuration. Appends notes to print.
ConfigTree to_sft_config(ConfigTree tree, std::vector<std::string>& notes);

/// Decides between sft.steps and sft.data_epochs; files with neither get one epoch.
void resolve_sft_length(const ConfigTree& tree, SftOptions& sft);

/// Returns whether supervised updates on files use a key of section data.
bool applies_to_sft_files(const std::string& key);

/// Fails if settings of the supervised phase contradict each other or other sections.
void check_sft(const Config& config);

/// Fails if the command line sets RL optimizer settings for a run without RL; section sft must have been meant.
void reject_rl_optimizer(const ConfigTree& tree, const Config& config);

/// Notes on settings that do nothing because there is, or is not, a supervised phase.
std::vector<std::string> unused_sft_settings(const Config& config);

}  // namespace keel
