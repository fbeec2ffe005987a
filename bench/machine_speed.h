#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <functional>
#include <vector>

#include "bench/median.h"

// Lower bounds of a step on the CPU: memory bandwidth for the bytes of the weights, GEMM throughput for the FLOPs.

inline double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Memory read bandwidth in bytes per second.
inline double memory_speed() {
  const at::Tensor large = at::ones({1 << 26});  // 256 MiB
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) seconds.push_back(seconds_of([&] { large.sum(); }));
  return 4.0 * static_cast<double>(large.numel()) / median(seconds);
}

/// GEMM throughput in FLOP per second.
inline double product_speed() {
  const at::Tensor a = at::rand({1024, 1024}), b = at::rand({1024, 1024});
  std::vector<double> seconds;
  for (int i = 0; i < 9; ++i) seconds.push_back(seconds_of([&] { at::matmul(a, b); }));
  return 2.0 * 1024 * 1024 * 1024 / median(seconds);
}
