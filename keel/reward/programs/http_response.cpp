#include "keel/reward/programs/http_response.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "keel/core/untrusted_text.h"

namespace keel {
namespace {

constexpr size_t kMaxHead = size_t{64} << 10, kMaxSizeLine = size_t{4} << 10;

std::optional<size_t> parse_size(std::string_view text, int base) {
  size_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view trim_right(std::string_view text) { return text.substr(0, text.find_last_not_of(" \t") + 1); }

/// The value of a header, trimmed and in lower case.
std::optional<std::string> header(std::string_view head, const std::string& name) {
  std::string lower(head);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const size_t begin = lower.find("\r\n" + name + ":");
  if (begin == std::string::npos) return std::nullopt;
  const size_t value = lower.find_first_not_of(" \t", begin + name.size() + 3);
  return std::string(trim_right(lower.substr(value, lower.find("\r\n", value) - value)));
}

}  // namespace

bool HttpResponse::add(std::string_view bytes) {
  total_bytes_ += bytes.size();
  if (total_bytes_ > max_bytes_) throw PermanentError("the response exceeds " + std::to_string(max_bytes_) + " bytes");
  received_.erase(0, position_).append(bytes);
  position_ = 0;
  while (advance()) continue;
  return stage_ == Stage::kComplete;
}

void HttpResponse::end() {
  if (stage_ == Stage::kComplete || stage_ == Stage::kUntilEnd) return;
  if (total_bytes_ == 0) throw ChannelError("closed the connection without a response");
  if (stage_ == Stage::kHead) throw ChannelError("closed the connection within the response header");
  if (stage_ == Stage::kCounted)
    throw ChannelError("the response has " + std::to_string(rest().size()) + " bytes, but its Content-Length is " +
                       std::to_string(expected_));
  throw ChannelError("the response ends within a chunk");
}

const std::string& HttpResponse::body() const {
  if (status_.starts_with('3'))
    throw PermanentError("answered with a redirect (" + status_ + "); set the final URL, redirects are not followed");
  if (status_.starts_with('5')) throw ChannelError("answered with status " + status_ + ": " + printable(body_));
  if (status_ != "200") throw PermanentError("answered with status " + status_ + ": " + printable(body_));
  return body_;
}

/// Parses one part; returns false if it needs more bytes, or none.
bool HttpResponse::advance() {
  switch (stage_) {
    case Stage::kHead:
      return read_head();
    case Stage::kCounted:
      return take_body("", Stage::kComplete);
    case Stage::kChunkSize:
      return read_chunk_size();
    case Stage::kChunk:
      return take_body("\r\n", Stage::kChunkSize);
    case Stage::kTrailer: {
      const size_t line = rest().find("\r\n");
      if (line == std::string_view::npos) return false;
      position_ += line + 2;
      if (line == 0) stage_ = Stage::kComplete;
      return true;
    }
    case Stage::kUntilEnd:
      body_ += rest();
      position_ = received_.size();
      return false;
    case Stage::kComplete:
      return false;
  }
  return false;
}

bool HttpResponse::read_head() {
  constexpr std::string_view kStart = "HTTP/1.";
  const size_t end = rest().find("\r\n\r\n");
  if (!kStart.starts_with(rest().substr(0, kStart.size())) ||
      (end == std::string_view::npos && rest().size() > kMaxHead))
    throw PermanentError("the response is not HTTP: " + printable(rest()));
  if (end == std::string_view::npos) return false;
  const std::string head(rest().substr(0, end + 2));
  status_ = head.substr(std::min<size_t>(kStart.size() + 2, head.size()), 3);
  if (status_.size() != 3 || status_.find_first_not_of("0123456789") != std::string::npos)
    throw PermanentError("the response is not HTTP: " + printable(head));
  position_ += end + 4;
  if (status_.starts_with('1') && status_ != "101") return true;  // an interim response
  stage_ = Stage::kUntilEnd;
  if (header(head, "transfer-encoding").value_or("").find("chunked") != std::string::npos) {
    stage_ = Stage::kChunkSize;
  } else if (const std::optional<std::string> length = header(head, "content-length")) {
    const std::optional<size_t> size = parse_size(*length, 10);
    if (!size) throw PermanentError("the response has the Content-Length " + printable(*length));
    if (*size > max_bytes_)
      throw PermanentError("the response exceeds " + std::to_string(max_bytes_) + " bytes: its Content-Length is " +
                           *length);
    expected_ = *size;
    stage_ = Stage::kCounted;
  }
  return true;
}

bool HttpResponse::read_chunk_size() {
  const size_t end = rest().find("\r\n");
  if (end == std::string_view::npos && rest().size() < kMaxSizeLine) return false;
  const std::string_view line = rest().substr(0, end), digits = line.substr(0, line.find(';'));  // before extensions
  const std::optional<size_t> size = parse_size(trim_right(digits), 16);
  if (!size || end == std::string_view::npos || *size > max_bytes_)
    throw PermanentError("the response has a chunk of " + printable(rest().substr(0, std::min(end, kMaxSizeLine))) +
                         " bytes");
  position_ += end + 2;
  expected_ = *size;
  stage_ = expected_ == 0 ? Stage::kTrailer : Stage::kChunk;
  return true;
}

/// Takes the expected bytes and the delimiter after them, if they have arrived.
bool HttpResponse::take_body(std::string_view delimiter, Stage next) {
  if (rest().size() < expected_ + delimiter.size()) return false;
  if (rest().substr(expected_, delimiter.size()) != delimiter)
    throw PermanentError("the response has a chunk that is longer than its size, " + std::to_string(expected_) +
                         " bytes");
  body_ += rest().substr(0, expected_);
  position_ += expected_ + delimiter.size();
  stage_ = next;
  return true;
}

}  // namespace keel
