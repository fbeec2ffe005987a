#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace keel {

/// Calls work(0) to work(count - 1) from up to `threads` threads; 0 means one per core. When calls throw, the others
/// still run, and the exception of the lowest index comes back.
void parallel_for(size_t count, size_t threads, const std::function<void(size_t)>& work);

/// What to do where there can be no more of them.
inline constexpr const char* kThreadLimits = "Raise the limit on processes (ulimit -u, a container's pids.max)";

/// `count` threads that do this work, or as many as the system's limits allow: there may be none.
std::vector<std::jthread> begin_threads(size_t count, const std::function<void()>& work);

/// `threads`, or the number of cores where it is 0.
size_t thread_count(size_t threads);

}  // namespace keel
