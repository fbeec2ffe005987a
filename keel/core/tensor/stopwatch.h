#pragma once

#include <chrono>

#include "keel/core/tensor/device.h"

namespace keel {

/// Measures seconds between laps. Each lap waits for the device's pending work.
class Stopwatch {
 public:
  explicit Stopwatch(at::Device device) : device_(device), last_(now()) {}

  double lap() {
    synchronize(device_);
    const auto before = last_;
    last_ = now();
    return std::chrono::duration<double>(last_ - before).count();
  }

 private:
  static std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }

  at::Device device_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace keel
