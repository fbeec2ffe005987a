#pragma once

#include <string>
#include <vector>

#include "keel/core/options/options.h"

namespace keel {

struct Config;
struct SftOptions;

/// What `keel sft` makes of its settings: where they name no sft.files, the files of section data are those to imitate,
/// and there is no RL phase. What it writes down is a configuration like any other. Notes to print are appended.
ConfigTree to_sft_config(ConfigTree tree, std::vector<std::string>& notes);

/// sft.steps or sft.data_epochs; files without either are passed over once.
void resolve_sft_length(const ConfigTree& tree, SftOptions& sft);

/// Whether supervised updates on files read a key of section data.
bool applies_to_sft_files(const std::string& key);

/// Settings of the supervised phase that contradict each other or the rest are refused.
void check_sft(const Config& config);

/// What was typed for RL, in a run that has none, is refused where the user must have meant section sft.
void refuse_typed_for_rl(const ConfigTree& tree, const Config& config);

/// Notes on settings that do nothing in a run with, or without, a supervised phase.
std::vector<std::string> unused_sft_settings(const Config& config);

}  // namespace keel
