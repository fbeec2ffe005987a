#pragma once

#include <string>
#include <string_view>

#include "keel/record/tools/exported_run.h"

namespace keel {

/// Formats a CSV field, with quotes if necessary.
std::string csv_field(std::string_view text);

/// A CSV table (RFC 4180) with one row per step: step, phase and all metrics. Missing values are empty fields.
std::string csv_table(const ExportedRun& run);

}  // namespace keel
