#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "keel/core/json.h"
#include "keel/counterfactual/comparison.h"

namespace keel::cli {

// Options and output shared by keel tokens and keel advise.

/// The records to read, and the output format.
struct RecordArguments {
  std::string run, steps;
  bool json = false, csv = false;

  void add_to(Command& command);
  /// Throws if the run has no records (exit code 3), or none of the chosen steps (exit code 2).
  std::vector<std::filesystem::path> files() const;
};

/// "runs/mine: dppo_tv, 120 recorded tokens (one row per update) of 4 steps, 9 to 12"
std::string describe_records(const std::string& run, const TokenComparison& comparison);

Json json_of(const Decisions& decisions);
Json json_of(const MethodComparison& comparison, size_t max_token_types);

/// One CSV field for each name in kDecisionFields.
std::string csv_fields(const Decisions& decisions);
inline constexpr const char* kDecisionFields =
    "tokens,held_back,held_back_positive,held_back_negative,outside,outside_positive,outside_negative,mu,entropy";

/// A number for CSV; empty for NaN and infinity.
std::string csv_number(double value);

}  // namespace keel::cli
