#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "keel/core/json.h"
#include "keel/counterfactual/comparison.h"

namespace keel::cli {

// What keel tokens and keel advise have in common.

/// Which records are asked, and how the answer is printed.
struct RecordArguments {
  std::string run, steps;
  bool json = false, csv = false;

  void add_to(Command& command);
  /// Refuses (exit code 3) a run without any, and (exit code 2) steps of which none is recorded.
  std::vector<std::filesystem::path> files() const;
};

/// "runs/mine: dppo_tv, 120 of its tokens recorded in 4 steps, 9 to 12"
std::string what_is_asked(const std::string& run, const TokenAnswers& answers);

Json json_of(const Decisions& decisions);
Json json_of(const MethodAnswer& answer, size_t most_types);

/// A field for each of the names of `decision_fields`, separated by commas.
std::string csv_fields(const Decisions& decisions);
inline constexpr const char* kDecisionFields =
    "tokens,held_back,held_back_positive,held_back_negative,outside,outside_positive,outside_negative,mu,entropy";

/// A number as CSV has it; nothing where it is none.
std::string csv_number(double value);

}  // namespace keel::cli
