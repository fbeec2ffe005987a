#pragma once

#include <functional>
#include <memory>

#include "keel/watch/listener.h"
#include "keel/watch/site.h"

namespace keel {

/// Returns whether this build includes the HTTP server.
bool can_serve();
/// Throws an Error (exit code 2) with a fix if it does not.
void require_server();

/// Serves requests on its own threads until its destruction. Accepts GET and HEAD with one of the listener's host names
/// and its path. Serves one request per connection and limits a client's time, bytes and threads.
class HttpServer {
 public:
  HttpServer(Listener listener, std::function<PageResponse(const PageRequest&)> respond);
  ~HttpServer();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keel
