#pragma once

#include <cerrno>

namespace keel {

/// The result of a system call, made again while a signal interrupts it.
template <class Call>
auto retry_on_eintr(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace keel
