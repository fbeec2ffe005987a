#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "keel/core/files/file.h"

namespace keel {

/// Where to serve; empty: on 127.0.0.1, at the first of some ports that is free.
struct WatchPlace {
  std::string host = {};         // another address of this machine; whoever asks there must know a token
  std::optional<int> port = {};  // this one and no other; 0: any
};

/// A socket that waits for connections, and how it is to be asked for. Does not block, and is not inherited by
/// programs.
struct Listener {
  FileHandle socket;
  std::set<std::string> hosts;  // what a request's Host header may say, in small letters: "127.0.0.1:8335", ...
  std::string path = "/";       // that all addresses begin with: "/" or "/TOKEN/"
  std::string address;          // for people: "http://127.0.0.1:8335/"
};

/// Refuses (exit code 2) a port that is in use and an address that is not this machine's, with the way out.
Listener listen_at(const WatchPlace& place);

/// Whether two texts are the same, in a time that does not tell how far they are.
bool equal_in_constant_time(std::string_view one, std::string_view other);

}  // namespace keel
