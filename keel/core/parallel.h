#pragma once

#include <cstddef>
#include <functional>

namespace keel {

/// Calls work(0) to work(count - 1) from up to `threads` threads; 0 means one per core. When calls throw, the others
/// still run, and the exception of the lowest index comes back.
void parallel_for(size_t count, size_t threads, const std::function<void(size_t)>& work);

/// `threads`, or the number of cores where it is 0.
size_t thread_count(size_t threads);

}  // namespace keel
