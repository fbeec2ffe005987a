#pragma once

#include <cerrno>

namespace keel {

/// Repeats a system call while signals interrupt it. Returns its result.
template <class Call>
auto retry_on_eintr(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace keel
