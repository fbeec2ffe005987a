#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "keel/core/histogram.h"
#include "keel/core/json.h"

namespace keel {

/// The key of metrics.jsonl that says when a row was written, in seconds since 1970. What has a time of its own for
/// every number takes it from there, and does not draw it.
inline constexpr const char* kClockMetric = "time/clock";

/// The time as it is written there, to the millisecond.
double seconds_since_1970();

/// The numbers of one step.
struct ExportedStep {
  std::string phase;
  int64_t step = 0;
  double time = 0;                                    // seconds since 1970
  std::map<std::string, double, std::less<>> values;  // by the names of metrics.jsonl
  std::map<std::string, Histogram, std::less<>> histograms = {};
  std::map<std::string, std::string, std::less<>> texts = {};  // for people
};

/// A completion of a step, as a text for people.
struct ExportedSample {
  std::string phase;
  int64_t step = 0;
  std::string text;
};

/// What other tools are told of a run.
struct ExportedRun {
  std::string name;                 // the folder's
  std::string id;                   // letters and digits; the same whenever this run is exported
  std::string config;               // config.yaml; empty if there is none
  Json settings;                    // "section.key" to value
  std::vector<ExportedStep> steps;  // at least one, each step once
  std::vector<ExportedSample> samples = {};
  const char* standing = "finished";  // or "running", or "stopped": it may be resumed
};

/// The fewest digits that are read back as this number.
std::string shortest_exact(double value);

}  // namespace keel
