#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "keel/core/files/file.h"

namespace keel {

/// A client's connection with limits on the size and time of the request and on the time of the response, also for slow
/// clients. Calls return at once when the descriptor `stop` becomes readable.
class Connection {
 public:
  static constexpr size_t kMaxHeadBytes = 16384;
  static constexpr double kReadTimeout = 5, kWriteTimeout = 30;  // seconds

  Connection(FileHandle socket, int stop) : socket_(std::move(socket)), stop_(stop) {}

  /// Reads the request up to the empty line after the headers. Returns less if the client exceeds a limit.
  std::string read_head() const;
  /// Returns the number of bytes written, or -1 if the client has closed the connection or the deadline has passed.
  ssize_t write(const char* bytes, size_t count);
  /// Shuts down the sending side and drains the client's data for a moment. Closing with unread data would discard the
  /// response.
  void finish() const;

 private:
  bool wait_for(short event, double deadline) const;

  FileHandle socket_;
  int stop_;
  double write_deadline_ = 0;  // set by the first write
};

}  // namespace keel
