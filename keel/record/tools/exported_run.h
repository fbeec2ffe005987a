#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "keel/core/histogram.h"
#include "keel/core/json.h"

namespace keel {

/// The metric with the time when a row was written, in seconds since 1970. Exports use it as the time stamp of the row.
inline constexpr const char* kClockMetric = "time/clock";

/// Returns the current time, rounded to milliseconds.
double seconds_since_1970();

/// The metrics of one step.
struct ExportedStep {
  std::string phase;
  int64_t step = 0;
  double time = 0;                                    // seconds since 1970
  std::map<std::string, double, std::less<>> values;  // by the names of metrics.jsonl
  std::map<std::string, Histogram, std::less<>> histograms = {};
  std::map<std::string, std::string, std::less<>> texts = {};  // readable texts
};

/// A completion of a step as readable text.
struct ExportedSample {
  std::string phase;
  int64_t step = 0;
  std::string text;
};

/// The data of a run for other tools.
struct ExportedRun {
  std::string name;                 // of the folder
  std::string id;                   // alphanumeric; equal for all exports of the run
  std::string config;               // config.yaml; empty if there is none
  Json settings;                    // "section.key" to value
  std::vector<ExportedStep> steps;  // not empty, steps are unique
  std::vector<ExportedSample> samples = {};
  const char* status = "finished";  // or "running", or "stopped" (resumable)
};

/// Formats a number with the fewest digits that parse back to it.
std::string shortest_exact(double value);

}  // namespace keel
