#pragma once

#include <pthread.h>

#include <stdexcept>

namespace keel {

/// As long as it lives no thread can be made: the stack that a new one asks for is larger than any memory.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t large = before_;
    pthread_attr_setstacksize(&large, size_t{1} << 50);
    if (pthread_setattr_default_np(&large) != 0) throw std::runtime_error("the size of stacks cannot be set");
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
