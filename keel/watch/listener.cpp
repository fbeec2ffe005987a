#include "keel/watch/listener.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

constexpr int kFirstPort = 8335, kPorts = 20, kBacklog = 128;
constexpr const char* kLoopback = "127.0.0.1";

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0)
    fail(ExitCode::kBadConfiguration, "--host: ", host, " is not an address (", gai_strerror(error),
         "); expected an address of this machine, such as 0.0.0.0 for all of them");
  return {found, freeaddrinfo};
}

std::string numeric_host(const sockaddr* address) {
  char text[NI_MAXHOST] = "";
  const socklen_t size = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return text;
}

/// Formats a host name for a URL.
std::string url_host(const std::string& name) {
  const std::string host = lower_case(name);
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

/// Binds and listens on one port. Returns 0 or the error number.
int bind_to(const addrinfo& address, int port, FileHandle& socket) {
  socket = FileHandle(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return errno;
  const int one = 1;  // binds even if earlier connections are in TIME_WAIT
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  sockaddr_storage bound{};
  std::memcpy(&bound, address.ai_addr, address.ai_addrlen);
  const auto network_port = htons(static_cast<uint16_t>(port));
  if (address.ai_family == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(bound).sin6_port = network_port;
  else
    reinterpret_cast<sockaddr_in&>(bound).sin_port = network_port;
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&bound), address.ai_addrlen) != 0) return errno;
  return listen(socket.get(), kBacklog) == 0 ? 0 : errno;
}

int bound_port(const FileHandle& socket) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

bool is_wildcard(const sockaddr* address) {
  if (address->sa_family == AF_INET6)
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == htonl(INADDR_ANY);
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : kLoopback;
}

/// Returns all host names of a socket that listens on every address.
std::vector<std::string> host_names() {
  std::vector<std::string> names = {"localhost", host_name()};
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return names;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next)
    if (each->ifa_addr != nullptr && (each->ifa_addr->sa_family == AF_INET || each->ifa_addr->sa_family == AF_INET6))
      names.push_back(numeric_host(each->ifa_addr));
  freeifaddrs(list);
  return names;
}

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    fail(ExitCode::kHealthGuard, "cannot get random bytes for the token: ", std::strerror(errno));
  std::string token;
  for (const unsigned char byte : bytes) token += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return token;
}

}  // namespace

Listener open_listener(const ListenAddress& address) {
  const std::string host = address.host.empty() ? kLoopback : address.host;
  const Addresses resolved = resolve(host);
  const int first = address.port.value_or(kFirstPort), last = address.port ? first : kFirstPort + kPorts - 1;
  Listener listener;
  int error = EADDRINUSE;
  for (int port = first; port <= last && error == EADDRINUSE; ++port) error = bind_to(*resolved, port, listener.socket);
  if (error == EADDRINUSE && address.port)
    fail(ExitCode::kBadConfiguration, "--port: ", first, " is in use on ", host,
         "; choose another one, --port 0 for any that is free, or leave --port out");
  if (error == EADDRINUSE)
    fail(ExitCode::kBadConfiguration, "the ports ", first, " to ", last, " are all in use on ", host,
         "; `keel watch RUN --port 0` takes any that is free");
  if (error == EADDRNOTAVAIL)
    fail(ExitCode::kBadConfiguration, "--host: ", host,
         " is not an address of this machine; 0.0.0.0 stands for all of them");
  if (error != 0)
    fail(ExitCode::kBadConfiguration, "cannot serve on ", host, ", port ", first, ": ", std::strerror(error),
         error == EACCES ? "; ports below 1024 need root, choose another one" : "");

  const bool on_all_addresses = is_wildcard(resolved->ai_addr);
  const std::string port = std::to_string(bound_port(listener.socket));
  std::vector<std::string> names = {host, numeric_host(resolved->ai_addr)};
  if (on_all_addresses) names = host_names();
  if (numeric_host(resolved->ai_addr) == kLoopback || numeric_host(resolved->ai_addr) == "::1")
    names.push_back("localhost");
  for (const std::string& name : names) {
    listener.hosts.insert(url_host(name) + ":" + port);
    if (port == "80") listener.hosts.insert(url_host(name));
  }
  if (!address.host.empty()) listener.path = "/" + random_token() + "/";
  listener.address = "http://" + url_host(on_all_addresses ? host_name() : host) + ":" + port + listener.path;
  return listener;
}

bool equal_in_constant_time(std::string_view one, std::string_view other) {
  unsigned difference = one.size() == other.size() ? 0 : 1;
  for (size_t i = 0; i < one.size() && i < other.size(); ++i)
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  return difference == 0;
}

}  // namespace keel
