#include "keel/core/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace keel {

size_t thread_count(size_t threads) {
  return threads > 0 ? threads : std::max<size_t>(1, std::thread::hardware_concurrency());
}

void parallel_for(size_t count, size_t threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  size_t first_failed = count;
  std::exception_ptr failure;
  const auto run = [&] {
    for (size_t i; (i = next++) < count;) {
      try {
        work(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (i >= first_failed) continue;
        first_failed = i;
        failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (size_t t = 1; t < std::min(thread_count(threads), count); ++t) helpers.emplace_back(run);
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace keel
