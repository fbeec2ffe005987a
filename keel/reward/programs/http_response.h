#pragma once

#include <string>
#include <string_view>

#include "keel/reward/programs/channel.h"

namespace keel {

/// An error that a retry cannot fix. Other errors of a response are plain ChannelErrors.
struct PermanentError : ChannelError {
  using ChannelError::ChannelError;
};

/// Parses one HTTP/1.x response incrementally, so that it ends before the connection does. Skips interim responses
/// (100 Continue).
class HttpResponse {
 public:
  explicit HttpResponse(size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Adds bytes. Returns whether the response is complete.
  bool add(std::string_view bytes);
  /// The connection was closed, which completes only a response without a length. Throws for others.
  void end();

  /// The body of a 200 response. Throws PermanentError for redirects and 4xx, ChannelError for 5xx.
  const std::string& body() const;

 private:
  enum class Stage { kHead, kCounted, kChunkSize, kChunk, kTrailer, kUntilEnd, kComplete };

  bool advance();
  bool read_head();
  bool read_chunk_size();
  bool take_body(std::string_view delimiter, Stage next);
  std::string_view rest() const { return std::string_view(received_).substr(position_); }

  size_t max_bytes_, total_bytes_ = 0;
  Stage stage_ = Stage::kHead;
  std::string received_;  // parsed up to position_
  size_t position_ = 0;
  size_t expected_ = 0;  // bytes of the body (Content-Length) or chunk
  std::string status_, body_;
};

}  // namespace keel
