#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace keel {

/// Calls work(0) to work(count - 1) from up to `threads` threads (0: one per core). If calls throw, the others still
/// run, and the exception of the lowest index is rethrown.
void parallel_for(size_t count, size_t threads, const std::function<void(size_t)>& work);

/// The fix in errors about threads that cannot be created.
inline constexpr const char* kThreadLimits = "Raise the limit on processes (ulimit -u, a container's pids.max)";

/// Starts `count` threads, or fewer (possibly 0) if the system's limits prevent it.
std::vector<std::jthread> begin_threads(size_t count, const std::function<void()>& work);

/// Returns `threads`, or the number of cores if it is 0.
size_t thread_count(size_t threads);

}  // namespace keel
