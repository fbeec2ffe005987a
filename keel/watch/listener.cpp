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

constexpr int kFirstPort = 8335, kPorts = 20, kWaiting = 128;
constexpr const char* kHere = "127.0.0.1";

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &wanted, &found); error != 0)
    fail(ExitCode::kBadConfiguration, "--host: ", host, " is no address (", gai_strerror(error),
         "); expected one of this machine's, such as 0.0.0.0 for all of them");
  return {found, freeaddrinfo};
}

std::string numeric(const sockaddr* address) {
  char text[NI_MAXHOST] = "";
  const socklen_t size = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return text;
}

/// As it stands in an address.
std::string bracketed(const std::string& name) {
  const std::string host = lower_case(name);
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

/// Tries one port; the error where it cannot be had.
int bind_to(const addrinfo& address, int port, FileHandle& socket) {
  socket = FileHandle(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return errno;
  const int one = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));  // though connections of before still linger
  sockaddr_storage place{};
  std::memcpy(&place, address.ai_addr, address.ai_addrlen);
  const auto number = htons(static_cast<uint16_t>(port));
  if (address.ai_family == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(place).sin6_port = number;
  else
    reinterpret_cast<sockaddr_in&>(place).sin_port = number;
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&place), address.ai_addrlen) != 0) return errno;
  return listen(socket.get(), kWaiting) == 0 ? 0 : errno;
}

int port_of(const FileHandle& socket) {
  sockaddr_storage place{};
  socklen_t size = sizeof(place);
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&place), &size);
  return ntohs(place.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(place).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(place).sin_port);
}

bool is_wildcard(const sockaddr* address) {
  if (address->sa_family == AF_INET6)
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == htonl(INADDR_ANY);
}

std::string machine_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : kHere;
}

/// All that a socket on every address can be asked for by.
std::vector<std::string> names_of_machine() {
  std::vector<std::string> names = {"localhost", machine_name()};
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return names;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next)
    if (each->ifa_addr != nullptr && (each->ifa_addr->sa_family == AF_INET || each->ifa_addr->sa_family == AF_INET6))
      names.push_back(numeric(each->ifa_addr));
  freeifaddrs(list);
  return names;
}

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    fail(ExitCode::kHealthGuard, "the system gives no random numbers for a token: ", std::strerror(errno));
  std::string token;
  for (const unsigned char byte : bytes) token += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return token;
}

}  // namespace

Listener listen_at(const WatchPlace& place) {
  const std::string host = place.host.empty() ? kHere : place.host;
  const Addresses address = resolve(host);
  const int first = place.port.value_or(kFirstPort), last = place.port ? first : kFirstPort + kPorts - 1;
  Listener listener;
  int error = EADDRINUSE;
  for (int port = first; port <= last && error == EADDRINUSE; ++port) error = bind_to(*address, port, listener.socket);
  if (error == EADDRINUSE && place.port)
    fail(ExitCode::kBadConfiguration, "--port: ", first, " is in use on ", host,
         "; choose another one, --port 0 for any that is free, or leave --port out");
  if (error == EADDRINUSE)
    fail(ExitCode::kBadConfiguration, "the ports ", first, " to ", last, " are all in use on ", host,
         "; `keel watch RUN --port 0` takes any that is free");
  if (error == EADDRNOTAVAIL)
    fail(ExitCode::kBadConfiguration, "--host: ", host, " is no address of this machine; 0.0.0.0 is all that it has");
  if (error != 0)
    fail(ExitCode::kBadConfiguration, "cannot serve on ", host, ", port ", first, ": ", std::strerror(error),
         error == EACCES ? "; ports below 1024 are the system's, choose another one" : "");

  const bool everywhere = is_wildcard(address->ai_addr);
  const std::string port = std::to_string(port_of(listener.socket));
  std::vector<std::string> names = {host, numeric(address->ai_addr)};
  if (everywhere) names = names_of_machine();
  if (numeric(address->ai_addr) == kHere || numeric(address->ai_addr) == "::1") names.push_back("localhost");
  for (const std::string& name : names) {
    listener.hosts.insert(bracketed(name) + ":" + port);
    if (port == "80") listener.hosts.insert(bracketed(name));
  }
  if (!place.host.empty()) listener.path = "/" + random_token() + "/";
  listener.address = "http://" + bracketed(everywhere ? machine_name() : host) + ":" + port + listener.path;
  return listener;
}

bool equal_in_constant_time(std::string_view one, std::string_view other) {
  unsigned difference = one.size() == other.size() ? 0 : 1;
  for (size_t i = 0; i < one.size() && i < other.size(); ++i)
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  return difference == 0;
}

}  // namespace keel
