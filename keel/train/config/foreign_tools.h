#pragma once

#include <string>

#include "keel/train/config/foreign_names.h"

namespace keel {

/// Where other programs are told which tools show a run while it goes on.
inline const Names kToolNames = {"report_to", "trainer.logger"};

/// The tools that a value names, one or a list, without words that mean none.
Names tools_of(const Json& value);

/// TensorBoard reads files, which a run writes, too.
inline constexpr const char* kTensorBoard = "tensorboard";

/// transformers' word for every tool that is installed.
inline constexpr const char* kAllTools = "all";

/// How a run gets to a tool that it is not written to while it goes on.
std::string way_to_tool(const std::string& tool);

void add_tool_aliases(OptionTable& table);

}  // namespace keel
