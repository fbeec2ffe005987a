#include "keel/watch/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "keel/core/steady_clock.h"

namespace keel {

bool Connection::wait_for(short event, double until) const {
  std::array<pollfd, 2> both{pollfd{.fd = socket_.get(), .events = event, .revents = 0},
                             pollfd{.fd = stop_, .events = POLLIN, .revents = 0}};
  for (;;) {
    const double left = until - steady_seconds();
    if (left <= 0) return false;
    const int ready = poll(both.data(), both.size(), static_cast<int>(std::min(left, 60.0) * 1000) + 1);
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0) return both[1].revents == 0;
  }
}

std::string Connection::read_head() const {
  const double until = steady_seconds() + kToAsk;
  std::string head;
  std::array<char, 4096> piece{};
  while (head.size() < kLongestHead && wait_for(POLLIN, until)) {
    const ssize_t count = recv(socket_.get(), piece.data(), std::min(piece.size(), kLongestHead - head.size()), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) break;
    const size_t before = head.size();
    head.append(piece.data(), static_cast<size_t>(count));
    const size_t end = head.find("\r\n\r\n", before < 3 ? 0 : before - 3);
    if (end != std::string::npos) return head.substr(0, end + 4);
  }
  return head;
}

ssize_t Connection::write(const char* bytes, size_t count) {
  if (take_until_ == 0) take_until_ = steady_seconds() + kToTake;
  while (wait_for(POLLOUT, take_until_)) {
    const ssize_t written = send(socket_.get(), bytes, count, MSG_NOSIGNAL);
    if (written >= 0) return written;
    if (errno != EAGAIN && errno != EINTR) break;
  }
  return -1;
}

void Connection::finish() const {
  constexpr double kMoment = 0.5;
  constexpr size_t kMost = 65536;
  shutdown(socket_.get(), SHUT_WR);
  const double until = steady_seconds() + kMoment;
  std::array<char, 4096> piece{};
  for (size_t count = 0; count < kMost && wait_for(POLLIN, until); count += piece.size())
    if (recv(socket_.get(), piece.data(), piece.size(), 0) <= 0) return;
}

}  // namespace keel
