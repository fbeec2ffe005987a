#pragma once

#include <string>

#include "keel/reward/programs/channel.h"
#include "keel/reward/programs/child_process.h"

namespace keel {

struct HttpOptions {
  std::string url;           // http://HOST[:PORT][/PATH], from the configuration only
  double timeout = 60;       // seconds for one request, from connecting to the last byte
  int64_t retries = 3;       // further tries when there is no connection, no answer in time or a 5xx answer
  double first_pause = 0.5;  // seconds before the first further try; doubled each time, up to 30
  size_t max_response = size_t{16} << 20;
};

/// POSTs requests to a reward server. No redirects are followed, no cookies kept, no proxy used, and the host is the
/// configured one, whatever prompts or completions say.
class HttpChannel final : public Channel {
 public:
  /// An Error (kBadConfiguration) when the URL is none that this can reach, https among them.
  explicit HttpChannel(HttpOptions options);
  void exchange(const std::string& request, const Accept& accept) override;

 private:
  /// The body of a 200 answer. A BadAnswer would be no better a second time; after another ChannelError it may.
  std::string post(const std::string& body) const;
  std::string post_until_answered(const std::string& body) const;

  HttpOptions options_;
  std::string host_, port_, path_, authority_;
};

}  // namespace keel
