// The one file that sees cpp-httplib, which reads requests and writes answers. Sockets and threads are ours: the
// library bounds neither how long a client may take in all nor how many headers it sends.

#include "keel/watch/http_server.h"

#include "keel/core/error.h"

#ifdef KEEL_HAS_HTTPLIB

#include <httplib.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "keel/core/parallel.h"
#include "keel/core/strings.h"
#include "keel/watch/connection.h"

namespace keel {
namespace {

constexpr size_t kThreads = 16;  // connections at a time; others wait in the system's queue
constexpr size_t kLongestName = 64;

/// Headers of a request that nothing here is served by: parts of a page, a compressed one, leave to send a body. Left
/// out, the library does not look at them.
constexpr std::array<std::string_view, 3> kUnserved = {"range", "accept-encoding", "expect"};

std::string without_unserved(std::string_view head) {
  std::string out;
  while (!head.empty()) {
    const std::string_view line = head.substr(0, std::min(head.find('\n'), head.size() - 1) + 1);
    head.remove_prefix(line.size());
    const std::string_view name = line.substr(0, std::min(line.find(':'), kLongestName));
    const bool unserved = std::ranges::any_of(kUnserved, [&](std::string_view each) {
      return std::ranges::equal(name, each, [](char a, char b) { return (a | 32) == b; });
    });
    if (!unserved) out += line;
  }
  return out;
}

/// A connection as the library sees it: the head of a request, which has been read, and nothing behind it. Versions of
/// the library differ in which of these they know, so that none is marked as overriding.
class Stream final : public httplib::Stream {
 public:
  explicit Stream(Connection& connection) : connection_(connection), head_(without_unserved(connection.read_head())) {}

  ssize_t read(char* to, size_t size) {
    const size_t count = std::min(size, head_.size() - at_);
    std::memcpy(to, head_.data() + at_, count);
    at_ += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* bytes, size_t size) { return connection_.write(bytes, size); }
  bool is_readable() const { return at_ < head_.size(); }
  bool wait_readable() const { return is_readable(); }
  bool is_writable() const { return true; }
  bool wait_writable() const { return true; }
  void get_remote_ip_and_port(std::string&, int&) const {}
  void get_local_ip_and_port(std::string&, int&) const {}
  socket_t socket() const { return 0; }  // never used: all is read and written here
  time_t duration() const { return 0; }

 private:
  Connection& connection_;
  std::string head_;
  size_t at_ = 0;
};

/// On every answer, whatever it is. Nothing may frame it, guess its type, be told where it was or keep it.
void add_headers(const httplib::Request&, httplib::Response& response) {
  std::string policy = response.get_header_value("Content-Security-Policy");
  if (policy.empty()) policy = "default-src 'none'; base-uri 'none'; form-action 'none'";
  const std::pair<const char*, std::string> headers[] = {
      {"Content-Security-Policy", policy + "; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cache-Control", "no-store"}};
  for (const auto& [name, value] : headers) {
    response.headers.erase(name);
    response.set_header(name, value);
  }
  response.headers.erase("Accept-Ranges");
}

bool is_read(const httplib::Request& request) { return request.method == "GET" || request.method == "HEAD"; }

void refuse(httplib::Response& response, int status, const std::string& reason) {
  response.status = status;
  if (status == 405) response.set_header("Allow", "GET, HEAD");
  response.set_content(reason + "\n", "text/plain; charset=utf-8");
}

/// The library's own refusals, of what it cannot read.
void explain(const httplib::Request& request, httplib::Response& response) {
  if (!response.body.empty()) return;
  if (!request.method.empty() && !is_read(request)) return refuse(response, 405, "Only GET and HEAD are answered.");
  refuse(response, response.status, "The request cannot be read.");
}

class Protocol : public httplib::Server {
 public:
  Protocol(const Listener& listener, std::function<Reply(const Question&)> reply_to)
      : listener_(listener), reply_to_(std::move(reply_to)) {
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      answer(request, response);
      return HandlerResponse::Handled;
    });
    set_error_handler(Handler(explain));
    set_post_routing_handler(add_headers);
  }

  void serve(Connection& connection) {
    Stream stream(connection);
    process(*this, stream);
    connection.finish();
  }

 private:
  /// Newer versions of the library want to be told who talks with whom.
  template <class Self>
  static void process(Self& self, httplib::Stream& stream) {
    bool closed = false;
    const std::function<void(httplib::Request&)> nothing;
    if constexpr (requires { self.process_request(stream, true, closed, nothing); })
      self.process_request(stream, true, closed, nothing);
    else
      self.process_request(stream, std::string(), 0, std::string(), 0, true, closed, nothing);
  }

  bool is_asked_by_name(const httplib::Request& request) const {
    if (request.get_header_value_count("Host") != 1) return false;
    return listener_.hosts.contains(lower_case(request.get_header_value("Host")));
  }

  /// The rest of the path, behind what all addresses begin with.
  std::optional<std::string> route_of(const std::string& path) const {
    const size_t size = std::min(listener_.path.size(), path.size());
    if (!equal_in_constant_time(std::string_view(path).substr(0, size), listener_.path)) return std::nullopt;
    return path.substr(size);
  }

  void answer(const httplib::Request& request, httplib::Response& response) {
    if (!is_asked_by_name(request))
      return refuse(response, 403,
                    "Only the address that keel printed is answered: " + *listener_.hosts.begin() +
                        ". Through a tunnel, keep its port.");
    if (!is_read(request)) return refuse(response, 405, "Only GET and HEAD are answered.");
    const std::optional<std::string> route = route_of(request.path);
    if (!route && listener_.path == "/") return refuse(response, 404, "There is no such page.");
    if (!route) return refuse(response, 403, "The address that keel printed has a token, which this one has not.");
    Question question{.route = *route, .runs = {}};
    for (size_t i = 0; i < request.get_param_value_count("run"); ++i)
      question.runs.push_back(request.get_param_value("run", i));
    try {
      const Reply reply = reply_to_(question);
      response.status = reply.status;
      if (!reply.policy.empty()) response.set_header("Content-Security-Policy", reply.policy);
      response.set_content(*reply.body, reply.type);
    } catch (const std::exception&) {  // out of memory, say; the next one may be answered
      refuse(response, 500, "The page could not be made.");
    }
  }

  const Listener& listener_;
  std::function<Reply(const Question&)> reply_to_;
};

}  // namespace

class HttpServer::Parts {
 public:
  Parts(Listener listener, std::function<Reply(const Question&)> answer)
      : listener_(std::move(listener)),
        stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        protocol_(listener_, std::move(answer)),
        threads_(begin_threads(kThreads, [this] { serve(); })) {
    if (threads_.empty()) fail(ExitCode::kHealthGuard, "no thread can be made for the server. ", kThreadLimits);
  }
  ~Parts() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
    threads_.clear();  // waits for them
  }

 private:
  void serve() {
    std::array<pollfd, 2> both{pollfd{.fd = listener_.socket.get(), .events = POLLIN, .revents = 0},
                               pollfd{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    while (poll(both.data(), both.size(), -1) >= 0 || errno == EINTR) {
      if (both[1].revents != 0) return;
      FileHandle socket(accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.is_open()) {  // another thread was faster; or there are too many files, and it must not spin
        if (errno != EAGAIN) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        continue;
      }
      try {
        Connection connection(std::move(socket), stop_.get());
        protocol_.serve(connection);
      } catch (const std::exception&) {  // of this client alone
      }
    }
  }

  Listener listener_;
  FileHandle stop_;
  Protocol protocol_;
  std::vector<std::jthread> threads_;
};

HttpServer::HttpServer(Listener listener, std::function<Reply(const Question&)> answer)
    : parts_(std::make_unique<Parts>(std::move(listener), std::move(answer))) {}
HttpServer::~HttpServer() = default;

bool can_serve() { return true; }

}  // namespace keel

#else

namespace keel {

class HttpServer::Parts {};
HttpServer::HttpServer(Listener, std::function<Reply(const Question&)>) { require_server(); }
HttpServer::~HttpServer() = default;

bool can_serve() { return false; }

}  // namespace keel

#endif

namespace keel {

void require_server() {
  if (!can_serve())
    fail(
        ExitCode::kBadConfiguration, "this build cannot serve pages: KEEL_WATCH was OFF, or cpp-httplib was not ",
        "found; install pkg-config and libcpp-httplib-dev and build again (cmake --preset release -DKEEL_WATCH=ON, ",
        "then make build), or write the page to a file: keel report RUN");
}

}  // namespace keel
