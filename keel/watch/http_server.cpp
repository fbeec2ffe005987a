// The only file that includes cpp-httplib, which parses requests and formats responses. Keel manages sockets and
// threads itself, because the library limits neither the total time of a client nor the number of its headers.

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

constexpr size_t kThreads = 16;  // concurrent connections; others wait in the listen backlog
constexpr size_t kMaxHeaderName = 64;

/// Request headers for unsupported features (ranges, compression, request bodies). They are removed before the library
/// reads the request.
constexpr std::array<std::string_view, 3> kIgnoredHeaders = {"range", "accept-encoding", "expect"};

std::string without_ignored_headers(std::string_view head) {
  std::string out;
  while (!head.empty()) {
    const std::string_view line = head.substr(0, std::min(head.find('\n'), head.size() - 1) + 1);
    head.remove_prefix(line.size());
    const std::string_view name = line.substr(0, std::min(line.find(':'), kMaxHeaderName));
    const bool ignored = std::ranges::any_of(
        kIgnoredHeaders, [&](std::string_view ignored_name) { return lower_case(std::string(name)) == ignored_name; });
    if (!ignored) out += line;
  }
  return out;
}

/// A connection for the library: provides the request's head, without a body. Versions of the library declare different
/// functions, so none is marked `override`.
class Stream final : public httplib::Stream {
 public:
  explicit Stream(Connection& connection)
      : connection_(connection), head_(without_ignored_headers(connection.read_head())) {}

  ssize_t read(char* to, size_t size) {
    const size_t count = std::min(size, head_.size() - position_);
    std::memcpy(to, head_.data() + position_, count);
    position_ += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* bytes, size_t size) { return connection_.write(bytes, size); }
  bool is_readable() const { return position_ < head_.size(); }
  bool wait_readable() const { return is_readable(); }
  bool is_writable() const { return true; }
  bool wait_writable() const { return true; }
  void get_remote_ip_and_port(std::string&, int&) const {}
  void get_local_ip_and_port(std::string&, int&) const {}
  socket_t socket() const { return 0; }  // unused: all I/O goes through this class
  time_t duration() const { return 0; }

 private:
  Connection& connection_;
  std::string head_;
  size_t position_ = 0;
};

/// Adds security headers to every response: no framing, no type sniffing, no referrer, no caching.
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

bool is_get_or_head(const httplib::Request& request) { return request.method == "GET" || request.method == "HEAD"; }

void set_error(httplib::Response& response, int status, const std::string& reason) {
  response.status = status;
  if (status == 405) response.set_header("Allow", "GET, HEAD");
  response.set_content(reason + "\n", "text/plain; charset=utf-8");
}

/// Adds a message to the library's own error responses.
void fill_library_error(const httplib::Request& request, httplib::Response& response) {
  if (!response.body.empty()) return;
  if (!request.method.empty() && !is_get_or_head(request))
    return set_error(response, 405, "Only GET and HEAD are answered.");
  set_error(response, response.status, "The request cannot be read.");
}

class Protocol : public httplib::Server {
 public:
  Protocol(const Listener& listener, std::function<PageResponse(const PageRequest&)> handler)
      : listener_(listener), handler_(std::move(handler)) {
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      respond(request, response);
      return HandlerResponse::Handled;
    });
    set_error_handler(Handler(fill_library_error));
    set_post_routing_handler(add_headers);
  }

  void serve(Connection& connection) {
    Stream stream(connection);
    process(*this, stream);
    connection.finish();
  }

 private:
  /// Newer versions of the library take the addresses of both ends.
  template <class Self>
  static void process(Self& self, httplib::Stream& stream) {
    bool closed = false;
    const std::function<void(httplib::Request&)> no_setup;
    if constexpr (requires { self.process_request(stream, true, closed, no_setup); })
      self.process_request(stream, true, closed, no_setup);
    else
      self.process_request(stream, std::string(), 0, std::string(), 0, true, closed, no_setup);
  }

  bool has_valid_host(const httplib::Request& request) const {
    if (request.get_header_value_count("Host") != 1) return false;
    return listener_.hosts.contains(lower_case(request.get_header_value("Host")));
  }

  /// Returns the path after the listener's prefix, or nullopt without that prefix.
  std::optional<std::string> parse_route(const std::string& path) const {
    const size_t size = std::min(listener_.path.size(), path.size());
    if (!equal_in_constant_time(std::string_view(path).substr(0, size), listener_.path)) return std::nullopt;
    return path.substr(size);
  }

  void respond(const httplib::Request& request, httplib::Response& response) {
    if (!has_valid_host(request))
      return set_error(response, 403,
                       "Only the address that keel printed is answered: " + *listener_.hosts.begin() +
                           ". Through a tunnel, keep its port.");
    if (!is_get_or_head(request)) return set_error(response, 405, "Only GET and HEAD are answered.");
    const std::optional<std::string> route = parse_route(request.path);
    if (!route && listener_.path == "/") return set_error(response, 404, "Page not found.");
    if (!route) return set_error(response, 403, "This address lacks the token of the address that keel printed.");
    PageRequest page_request{.route = *route, .runs = {}};
    for (size_t i = 0; i < request.get_param_value_count("run"); ++i)
      page_request.runs.push_back(request.get_param_value("run", i));
    try {
      const PageResponse page = handler_(page_request);
      response.status = page.status;
      if (!page.policy.empty()) response.set_header("Content-Security-Policy", page.policy);
      response.set_content(*page.body, page.type);
    } catch (const std::exception&) {  // for example out of memory; the next request may succeed
      set_error(response, 500, "The page could not be built.");
    }
  }

  const Listener& listener_;
  std::function<PageResponse(const PageRequest&)> handler_;
};

}  // namespace

class HttpServer::Impl {
 public:
  Impl(Listener listener, std::function<PageResponse(const PageRequest&)> respond)
      : listener_(std::move(listener)),
        stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        protocol_(listener_, std::move(respond)),
        threads_(begin_threads(kThreads, [this] { serve(); })) {
    if (threads_.empty()) fail(ExitCode::kHealthGuard, "cannot create a thread for the server. ", kThreadLimits);
  }
  ~Impl() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof(one));
    threads_.clear();  // joins them
  }

 private:
  void serve() {
    std::array<pollfd, 2> descriptors{pollfd{.fd = listener_.socket.get(), .events = POLLIN, .revents = 0},
                                      pollfd{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    while (poll(descriptors.data(), descriptors.size(), -1) >= 0 || errno == EINTR) {
      if (descriptors[1].revents != 0) return;
      FileHandle socket(accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.is_open()) {  // another thread accepted it, or there are too many open files: do not spin
        if (errno != EAGAIN) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        continue;
      }
      try {
        Connection connection(std::move(socket), stop_.get());
        protocol_.serve(connection);
      } catch (const std::exception&) {  // affects only this client
      }
    }
  }

  Listener listener_;
  FileHandle stop_;
  Protocol protocol_;
  std::vector<std::jthread> threads_;
};

HttpServer::HttpServer(Listener listener, std::function<PageResponse(const PageRequest&)> respond)
    : impl_(std::make_unique<Impl>(std::move(listener), std::move(respond))) {}
HttpServer::~HttpServer() = default;

bool can_serve() { return true; }

}  // namespace keel

#else

namespace keel {

class HttpServer::Impl {};
HttpServer::HttpServer(Listener, std::function<PageResponse(const PageRequest&)>) { require_server(); }
HttpServer::~HttpServer() = default;

bool can_serve() { return false; }

}  // namespace keel

#endif

namespace keel {

void require_server() {
  if (!can_serve())
    fail(ExitCode::kBadConfiguration, "this build cannot serve pages: KEEL_WATCH was OFF, or cpp-httplib was not ",
         "found; install pkg-config and libcpp-httplib-dev and build again (cmake --preset release -DKEEL_WATCH=ON, ",
         "then make build), or write the page to a file: keel report RUN");
}

}  // namespace keel
