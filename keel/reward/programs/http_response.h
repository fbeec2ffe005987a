#pragma once

#include <string>
#include <string_view>

#include "keel/reward/programs/channel.h"

namespace keel {

/// An answer that would be no better a second time. What is wrong with one otherwise is a plain ChannelError.
struct BadAnswer : ChannelError {
  using ChannelError::ChannelError;
};

/// Reads one HTTP/1.x answer as its bytes come in, so that nobody has to wait for the end of the connection. Interim
/// answers (100 Continue) are passed over.
class HttpResponse {
 public:
  explicit HttpResponse(size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Whether the answer is whole now: counted bytes are there, or the last chunk.
  bool add(std::string_view bytes);
  /// The connection ended. Only an answer without a length is whole by that.
  void end();

  /// Of an answer with the status 200. Redirects are not followed; the faults of a server (5xx) may pass.
  const std::string& body() const;

 private:
  enum class Stage { kHead, kCounted, kChunkSize, kChunk, kTrailer, kUntilEnd, kWhole };

  bool advance();
  bool read_head();
  bool read_chunk_size();
  bool take_body(std::string_view ending, Stage next);
  std::string_view rest() const { return std::string_view(received_).substr(at_); }

  size_t max_bytes_, count_ = 0;
  Stage stage_ = Stage::kHead;
  std::string received_;  // and not yet read from at_ on
  size_t at_ = 0;
  size_t wanted_ = 0;  // bytes of the counted body or chunk
  std::string status_, body_;
};

}  // namespace keel
