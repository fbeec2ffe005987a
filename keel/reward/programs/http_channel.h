#pragma once

#include <string>

#include "keel/reward/programs/channel.h"
#include "keel/reward/programs/child_process.h"

namespace keel {

struct HttpOptions {
  std::string url;           // http://HOST[:PORT][/PATH]
  double timeout = 60;       // seconds for one request, from connecting to the last byte
  int64_t retries = 3;       // retries without a connection, after a timeout or a 5xx response
  double first_pause = 0.5;  // seconds before the first retry; doubles each time, up to 30
  size_t max_response = size_t{16} << 20;
};

/// POSTs requests to a reward server. It uses no redirects, cookies or proxy.
class HttpChannel final : public Channel {
 public:
  /// Throws an Error (kBadConfiguration) for an unsupported URL, such as https.
  explicit HttpChannel(HttpOptions options);
  void exchange(const std::string& request, const Accept& accept) override;

 private:
  /// Returns the body of a 200 response. Throws PermanentError if a retry is useless, else ChannelError.
  std::string post(const std::string& body) const;
  std::string post_with_retries(const std::string& body) const;

  HttpOptions options_;
  std::string host_, port_, path_, authority_;
};

}  // namespace keel
