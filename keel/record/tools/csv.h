#pragma once

#include <string>
#include <string_view>

#include "keel/record/tools/exported_run.h"

namespace keel {

/// A text as a field of such a table, in quotes where it must be.
std::string csv_field(std::string_view text);

/// A table as RFC 4180 has it: a row for every step, with its number and phase first and then every metric, a field
/// that is empty where a step has no number of that name.
std::string csv_table(const ExportedRun& run);

}  // namespace keel
