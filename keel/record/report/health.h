#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keel/record/run_data.h"

namespace keel {

/// Compares a metric with a band from the first steps of the run. docs/report.md defines the band.
struct BandCheck {
  std::string key, name;
  double low = 0, high = 0;  // the band; infinite for an unused side
  struct Departure {
    int64_t step = 0;
    double value = 0;
    bool above = false;
    double low = 0, high = 0;  // the band at that step; the band of the reward rises
    bool recovered = false;    // the last steps are inside again
  };
  std::optional<Departure> departure = {};  // the first of three consecutive steps outside
};

/// A held-out score whose 95 % interval is below that of the evaluation before.
struct EvaluationFall {
  EvalPoint before, after;
};

struct Health {
  int64_t steps = 0, baseline_steps = 0;  // RL steps, and those that define the bands; 0: too few steps
  std::vector<BandCheck> checks = {};     // sorted by the step of departure
  std::optional<EvaluationFall> evaluation_fall = {};  // the first

  /// The metric that left its band first, if any.
  const BandCheck* first() const { return !checks.empty() && checks[0].departure ? &checks[0] : nullptr; }
  bool has_warning() const { return first() != nullptr || evaluation_fall.has_value(); }
};

inline constexpr int64_t kMinStepsForHealth = 20;

Health check_health(const RunData& run);

/// "Held-out accuracy fell from 45.0 % [41.0 %, 49.0 %] at step 0 to 31.0 % [27.0 %, 35.0 %] at step 20".
std::string describe(const EvaluationFall& fall);

}  // namespace keel
