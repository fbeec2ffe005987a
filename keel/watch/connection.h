#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "keel/core/files/file.h"

namespace keel {

/// One client's connection, with all that it may take: so many bytes for what it asks, and so many seconds for that and
/// for taking the answer, however slowly it does either. Ends at once when `stop` can be read from.
class Connection {
 public:
  static constexpr size_t kLongestHead = 16384;
  static constexpr double kToAsk = 5, kToTake = 30;  // seconds

  Connection(FileHandle socket, int stop) : socket_(std::move(socket)), stop_(stop) {}

  /// Everything up to the empty line behind the headers; less where the client took too long or said too much.
  std::string read_head() const;
  /// As many bytes as could be written, -1 where the client is gone or has taken too long.
  ssize_t write(const char* bytes, size_t count);
  /// Says that this was all, and waits a moment for what the client still sends: closed with it unread, the connection
  /// would take the answer with it.
  void finish() const;

 private:
  bool wait_for(short event, double until) const;

  FileHandle socket_;
  int stop_;
  double take_until_ = 0;  // from the first write on
};

}  // namespace keel
