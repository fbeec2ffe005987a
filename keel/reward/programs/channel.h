#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace keel {

/// Why a request to a reward program got no answer.
struct ChannelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Nobody answers at all, or not for as many completions as were asked about: there is no sense in asking again.
struct ChannelDown : ChannelError {
  using ChannelError::ChannelError;
};

/// A way to ask a program outside: one JSON text there, one back. Safe to use from several threads.
class Channel {
 public:
  virtual ~Channel() = default;
  /// Throws ChannelError when no answer comes. `accept` reads the answer; when it throws, whoever sent it is not to be
  /// trusted with the next request.
  using Accept = std::function<void(const std::string& reply)>;
  virtual void exchange(const std::string& request, const Accept& accept) = 0;
};

}  // namespace keel
