#include "keel/reward/programs/http_response.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "keel/core/foreign_text.h"

namespace keel {
namespace {

constexpr size_t kMaxHead = size_t{64} << 10, kMaxSizeLine = size_t{4} << 10;

std::optional<size_t> parse_size(std::string_view text, int base) {
  size_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view without_blanks_behind(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t") + 1);
}

/// The value of a header, in lower case and without the spaces around it.
std::optional<std::string> header(std::string_view head, const std::string& name) {
  std::string lower(head);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const size_t begin = lower.find("\r\n" + name + ":");
  if (begin == std::string::npos) return std::nullopt;
  const size_t value = lower.find_first_not_of(" \t", begin + name.size() + 3);
  return std::string(without_blanks_behind(lower.substr(value, lower.find("\r\n", value) - value)));
}

}  // namespace

bool HttpResponse::add(std::string_view bytes) {
  count_ += bytes.size();
  if (count_ > max_bytes_) throw BadAnswer("the answer has more than " + std::to_string(max_bytes_) + " bytes");
  received_.erase(0, at_).append(bytes);
  at_ = 0;
  while (advance()) continue;
  return stage_ == Stage::kWhole;
}

void HttpResponse::end() {
  if (stage_ == Stage::kWhole || stage_ == Stage::kUntilEnd) return;
  if (count_ == 0) throw ChannelError("closed the connection without an answer");
  if (stage_ == Stage::kHead) throw ChannelError("closed the connection before the end of the answer's head");
  if (stage_ == Stage::kCounted)
    throw ChannelError("the answer has " + std::to_string(rest().size()) + " bytes, but announced " +
                       std::to_string(wanted_));
  throw ChannelError("the answer ends in the middle of a chunk");
}

const std::string& HttpResponse::body() const {
  if (status_.starts_with('3'))
    throw BadAnswer("answered with a redirect (" + status_ + "), which is not followed; give the final address");
  if (status_.starts_with('5')) throw ChannelError("answered with status " + status_ + ": " + printable(body_));
  if (status_ != "200") throw BadAnswer("answered with status " + status_ + ": " + printable(body_));
  return body_;
}

/// One step; false when more bytes are needed, or no more.
bool HttpResponse::advance() {
  switch (stage_) {
    case Stage::kHead:
      return read_head();
    case Stage::kCounted:
      return take_body("", Stage::kWhole);
    case Stage::kChunkSize:
      return read_chunk_size();
    case Stage::kChunk:
      return take_body("\r\n", Stage::kChunkSize);
    case Stage::kTrailer: {
      const size_t line = rest().find("\r\n");
      if (line == std::string_view::npos) return false;
      at_ += line + 2;
      if (line == 0) stage_ = Stage::kWhole;
      return true;
    }
    case Stage::kUntilEnd:
      body_ += rest();
      at_ = received_.size();
      return false;
    case Stage::kWhole:
      return false;
  }
  return false;
}

bool HttpResponse::read_head() {
  constexpr std::string_view kStart = "HTTP/1.";
  const size_t end = rest().find("\r\n\r\n");
  if (!kStart.starts_with(rest().substr(0, kStart.size())) ||
      (end == std::string_view::npos && rest().size() > kMaxHead))
    throw BadAnswer("the answer is no HTTP: " + printable(rest()));
  if (end == std::string_view::npos) return false;
  const std::string head(rest().substr(0, end + 2));
  status_ = head.substr(std::min<size_t>(kStart.size() + 2, head.size()), 3);
  if (status_.size() != 3 || status_.find_first_not_of("0123456789") != std::string::npos)
    throw BadAnswer("the answer is no HTTP: " + printable(head));
  at_ += end + 4;
  if (status_.starts_with('1') && status_ != "101") return true;  // the answer is still to come
  stage_ = Stage::kUntilEnd;
  if (header(head, "transfer-encoding").value_or("").find("chunked") != std::string::npos) {
    stage_ = Stage::kChunkSize;
  } else if (const std::optional<std::string> length = header(head, "content-length")) {
    const std::optional<size_t> size = parse_size(*length, 10);
    if (!size) throw BadAnswer("the answer announced " + printable(*length) + " bytes");
    if (*size > max_bytes_)
      throw BadAnswer("the answer has more than " + std::to_string(max_bytes_) + " bytes: it announced " + *length);
    wanted_ = *size;
    stage_ = Stage::kCounted;
  }
  return true;
}

bool HttpResponse::read_chunk_size() {
  const size_t end = rest().find("\r\n");
  if (end == std::string_view::npos && rest().size() < kMaxSizeLine) return false;
  const std::string_view line = rest().substr(0, end), digits = line.substr(0, line.find(';'));  // before extensions
  const std::optional<size_t> size = parse_size(without_blanks_behind(digits), 16);
  if (!size || end == std::string_view::npos || *size > max_bytes_)
    throw BadAnswer("the answer has a chunk of " + printable(rest().substr(0, std::min(end, kMaxSizeLine))) + " bytes");
  at_ += end + 2;
  wanted_ = *size;
  stage_ = wanted_ == 0 ? Stage::kTrailer : Stage::kChunk;
  return true;
}

/// Once all wanted bytes are there, and what ends them.
bool HttpResponse::take_body(std::string_view ending, Stage next) {
  if (rest().size() < wanted_ + ending.size()) return false;
  if (rest().substr(wanted_, ending.size()) != ending)
    throw BadAnswer("the answer has a chunk that does not end after the " + std::to_string(wanted_) +
                    " bytes that it announced");
  body_ += rest().substr(0, wanted_);
  at_ += wanted_ + ending.size();
  stage_ = next;
  return true;
}

}  // namespace keel
