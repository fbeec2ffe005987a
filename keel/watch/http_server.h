#pragma once

#include <functional>
#include <memory>

#include "keel/watch/listener.h"
#include "keel/watch/site.h"

namespace keel {

/// Whether this build can serve pages at all.
bool can_serve();
/// Refuses (exit code 2), with the way out, where it cannot.
void require_server();

/// Answers requests, on threads of its own, until it ends. Only GET and HEAD, only to who asks by a name of the
/// listener's and knows its path. One request per connection; what a client may take of time, bytes and threads is
/// bounded.
class HttpServer {
 public:
  HttpServer(Listener listener, std::function<Reply(const Question&)> answer);
  ~HttpServer();

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace keel
