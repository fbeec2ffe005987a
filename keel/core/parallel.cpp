#include "keel/core/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>

namespace keel {

size_t thread_count(size_t threads) {
  return threads > 0 ? threads : std::max<size_t>(1, std::thread::hardware_concurrency());
}

std::vector<std::jthread> begin_threads(size_t count, const std::function<void()>& work) {
  std::vector<std::jthread> threads;
  threads.reserve(count);
  try {
    while (threads.size() < count) threads.emplace_back(work);
  } catch (const std::system_error&) {  // the user or the container has a limit
  } catch (const std::bad_alloc&) {
  }
  return threads;
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
    const size_t thread_limit = std::min(thread_count(threads), count);
    const std::vector<std::jthread> helpers = begin_threads(thread_limit > 0 ? thread_limit - 1 : 0, run);
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace keel
