#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "keel/core/files/file.h"

namespace keel {

/// The address to serve on. Default: 127.0.0.1 and the first free port of a range.
struct ListenAddress {
  std::string host = {};         // another address of this machine; its pages need a token
  std::optional<int> port = {};  // exactly this one; 0: any free one
};

/// A listening socket and its addresses. The socket is non-blocking and close-on-exec.
struct Listener {
  FileHandle socket;
  std::set<std::string> hosts;  // valid Host headers, in lower case: "127.0.0.1:8335", ...
  std::string path = "/";       // prefix of all paths: "/" or "/TOKEN/"
  std::string address;          // to print: "http://127.0.0.1:8335/"
};

/// Opens the socket. Throws an Error (exit code 2) with a fix if the port is in use or the address is not local.
Listener open_listener(const ListenAddress& address);

bool equal_in_constant_time(std::string_view one, std::string_view other);

}  // namespace keel
