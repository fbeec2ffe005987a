#include "keel/watch/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "keel/core/steady_clock.h"

namespace keel {

bool Connection::wait_for(short event, double deadline) const {
  std::array<pollfd, 2> descriptors{pollfd{.fd = socket_.get(), .events = event, .revents = 0},
                                    pollfd{.fd = stop_, .events = POLLIN, .revents = 0}};
  for (;;) {
    const double remaining = deadline - steady_seconds();
    if (remaining <= 0) return false;
    const int ready =
        poll(descriptors.data(), descriptors.size(), static_cast<int>(std::min(remaining, 60.0) * 1000) + 1);
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0) return descriptors[1].revents == 0;
  }
}

std::string Connection::read_head() const {
  const double deadline = steady_seconds() + kReadTimeout;
  std::string head;
  std::array<char, 4096> buffer{};
  while (head.size() < kMaxHeadBytes && wait_for(POLLIN, deadline)) {
    const ssize_t count = recv(socket_.get(), buffer.data(), std::min(buffer.size(), kMaxHeadBytes - head.size()), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) break;
    const size_t before = head.size();
    head.append(buffer.data(), static_cast<size_t>(count));
    const size_t end = head.find("\r\n\r\n", before < 3 ? 0 : before - 3);
    if (end != std::string::npos) return head.substr(0, end + 4);
  }
  return head;
}

ssize_t Connection::write(const char* bytes, size_t count) {
  if (write_deadline_ == 0) write_deadline_ = steady_seconds() + kWriteTimeout;
  while (wait_for(POLLOUT, write_deadline_)) {
    const ssize_t written = send(socket_.get(), bytes, count, MSG_NOSIGNAL);
    if (written >= 0) return written;
    if (errno != EAGAIN && errno != EINTR) break;
  }
  return -1;
}

void Connection::finish() const {
  constexpr double kDrainTimeout = 0.5;
  constexpr size_t kMaxDrainBytes = 65536;
  shutdown(socket_.get(), SHUT_WR);
  const double deadline = steady_seconds() + kDrainTimeout;
  std::array<char, 4096> buffer{};
  for (size_t count = 0; count < kMaxDrainBytes && wait_for(POLLIN, deadline); count += buffer.size())
    if (recv(socket_.get(), buffer.data(), buffer.size(), 0) <= 0) return;
}

}  // namespace keel
