#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace keel {

/// A request to a reward program failed.
struct ChannelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The program cannot be reached, or breaks the protocol, so that a retry is useless.
struct ChannelDown : ChannelError {
  using ChannelError::ChannelError;
};

/// Sends one JSON text to an external program and receives one. Thread-safe.
class Channel {
 public:
  virtual ~Channel() = default;
  /// Throws ChannelError if there is no reply. `accept` parses the reply; if it throws, the sender is not used again.
  using Accept = std::function<void(const std::string& reply)>;
  virtual void exchange(const std::string& request, const Accept& accept) = 0;
};

}  // namespace keel
