#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <functional>
#include <vector>

#include "bench/median.h"

// What a step on the CPU cannot be quicker than: the bytes of the weights at the memory's speed, and the products at
// the speed of a large one.

inline double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Of reading memory that no cache holds, in bytes a second.
inline double memory_speed() {
  const at::Tensor much = at::ones({1 << 26});  // 256 MiB
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) seconds.push_back(seconds_of([&] { much.sum(); }));
  return 4.0 * static_cast<double>(much.numel()) / median(seconds);
}

/// Of a large product, in floating-point operations a second.
inline double product_speed() {
  const at::Tensor a = at::rand({1024, 1024}), b = at::rand({1024, 1024});
  std::vector<double> seconds;
  for (int i = 0; i < 9; ++i) seconds.push_back(seconds_of([&] { at::matmul(a, b); }));
  return 2.0 * 1024 * 1024 * 1024 / median(seconds);
}
