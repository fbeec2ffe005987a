#include "keel/reward/programs/http_channel.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <system_error>
#include <thread>

#include "keel/core/error.h"
#include "keel/core/interrupt.h"
#include "keel/core/untrusted_text.h"
#include "keel/reward/programs/http_response.h"

namespace keel {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kMaxPause = 30;  // seconds between two attempts

void wait_for(int socket, short events, Deadline deadline, const char* what) {
  pollfd file = {socket, events, 0};
  while (poll_unless_stopped({&file, 1}, milliseconds_until(deadline)) <= 0)
    if (Clock::now() >= deadline) throw ChannelError(std::string(what) + " took too long");
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host, const std::string& port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
    throw ChannelDown(host + ": " + gai_strerror(error));
  return Addresses(found, freeaddrinfo);
}

/// Resolves on a detached thread, because getaddrinfo cannot be interrupted.
Addresses resolve(const std::string& host, const std::string& port, Deadline deadline) {
  std::packaged_task<Addresses()> task([host, port] { return resolve(host, port); });
  std::future<Addresses> addresses = task.get_future();
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error& error) {
    throw ChannelError("cannot create a thread to resolve " + host + ": " + error.what());
  }
  while (addresses.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    throw_if_stopped();
    if (Clock::now() >= deadline) throw ChannelError("resolving " + host + " took too long");
  }
  return addresses.get();
}

FileHandle connect_to(const addrinfo& address, Deadline deadline) {
  FileHandle handle(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol));
  if (!handle.is_open()) throw ChannelError(strerror(errno));
  if (connect(handle.get(), address.ai_addr, address.ai_addrlen) == 0) return handle;
  if (errno != EINPROGRESS) throw ChannelError(strerror(errno));
  wait_for(handle.get(), POLLOUT, deadline, "connecting");
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(handle.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) throw ChannelError(strerror(error));
  return handle;
}

FileHandle connect_to(const std::string& host, const std::string& port, Deadline deadline) {
  const Addresses found = resolve(host, port, deadline);
  std::string why;
  for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
    try {
      return connect_to(*address, deadline);
    } catch (const ChannelError& error) {
      why = error.what();
    }
  }
  throw ChannelDown("no connection to " + host + ":" + port + ": " + why);
}

void send_all(int socket, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    wait_for(socket, POLLOUT, deadline, "sending");
    const ssize_t count = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count > 0) bytes.remove_prefix(static_cast<size_t>(count));
    if (count < 0 && errno != EAGAIN && errno != EINTR) throw ChannelError(strerror(errno));
  }
}

void receive(int socket, HttpResponse& response, Deadline deadline) {
  char buffer[1 << 16];
  while (true) {
    wait_for(socket, POLLIN, deadline, "the response");
    const ssize_t count = recv(socket, buffer, sizeof(buffer), 0);
    if (count == 0) return response.end();
    if (count < 0 && errno != EAGAIN && errno != EINTR) throw ChannelError(strerror(errno));
    if (count > 0 && response.add({buffer, static_cast<size_t>(count)})) return;
  }
}

}  // namespace

HttpChannel::HttpChannel(HttpOptions options) : options_(std::move(options)) {
  const std::string& url = options_.url;
  const auto refuse = [&](const char* why) {
    fail(ExitCode::kBadConfiguration, "reward.functions: ", printable(url), ": ", why);
  };
  if (url.starts_with("https://"))
    refuse("https is not supported. Use a local proxy (http://localhost:...), or exec: with a program that uses https");
  if (!url.starts_with("http://") || url.find_first_of(" \t\r\n") != std::string::npos)
    refuse("expected http://HOST[:PORT][/PATH]");
  const size_t begin = std::string_view("http://").size(), slash = std::min(url.find('/', begin), url.size());
  authority_ = url.substr(begin, slash - begin);
  path_ = slash == url.size() ? "/" : url.substr(slash);
  if (authority_.find('@') != std::string::npos) refuse("user names in the URL are not supported; remove it");
  const bool is_bracketed = authority_.starts_with('[');
  const size_t colon = authority_.find(':', is_bracketed ? std::min(authority_.find(']'), authority_.size()) : 0);
  host_ = authority_.substr(0, colon);
  if (is_bracketed && host_.ends_with(']')) host_ = host_.substr(1, host_.size() - 2);
  port_ = colon == std::string::npos ? "80" : authority_.substr(colon + 1);
  uint16_t number = 0;
  const auto [rest, error] = std::from_chars(port_.data(), port_.data() + port_.size(), number);
  if (host_.empty() || error != std::errc() || rest != port_.data() + port_.size() || number == 0)
    refuse("expected http://HOST[:PORT][/PATH]");
}

std::string HttpChannel::post(const std::string& body) const {
  const Deadline deadline = seconds_from_now(options_.timeout);
  const FileHandle connection = connect_to(host_, port_, deadline);
  std::string request = "POST " + path_ + " HTTP/1.1\r\nHost: " + authority_;
  request += "\r\nContent-Type: application/json\r\nAccept: application/json\r\nConnection: close\r\nContent-Length: ";
  request += std::to_string(body.size()) + "\r\n\r\n" + body;
  send_all(connection.get(), request, deadline);
  HttpResponse response(options_.max_response);
  receive(connection.get(), response, deadline);
  return response.body();
}

std::string HttpChannel::post_with_retries(const std::string& body) const {
  double pause = options_.first_pause;
  for (int64_t attempt = 0;; ++attempt, pause = std::min(2 * pause, kMaxPause)) {
    try {
      return post(body);
    } catch (const PermanentError&) {
      throw;
    } catch (const ChannelError&) {
      if (attempt >= options_.retries) throw;
    }
    const Deadline retry_at = seconds_from_now(pause);
    while (Clock::now() < retry_at) poll_unless_stopped({}, milliseconds_until(retry_at));
  }
}

void HttpChannel::exchange(const std::string& request, const Accept& accept) { accept(post_with_retries(request)); }

}  // namespace keel
