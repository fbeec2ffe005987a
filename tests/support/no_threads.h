#pragma once

#include <pthread.h>

#include <stdexcept>

namespace keel {

/// Prevents new threads during its lifetime by a default stack size that is larger than any memory.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t large = before_;
    pthread_attr_setstacksize(&large, size_t{1} << 50);
    if (pthread_setattr_default_np(&large) != 0) throw std::runtime_error("cannot set the stack size");
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace keel
