#include "keel/core/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "keel/core/steady_clock.h"
#include "keel/core/untrusted_text.h"

namespace keel {
namespace {

/// Texts of print_to_stderr_and_log() that no log has yet. Only the thread that logs may write to a run's files.
std::mutex unlogged_mutex;
std::vector<std::string> unlogged;

struct Range {
  uint32_t first, last;
};

template <size_t N>
bool in_ranges(const std::array<Range, N>& ranges, uint32_t value) {
  return std::any_of(ranges.begin(), ranges.end(), [&](Range r) { return r.first <= value && value <= r.last; });
}

// The joiners U+200C and U+200D are not escaped: Persian, Indic scripts and emoji need them.
constexpr std::array<Range, 11> kControlOrInvisible{{{0x00, 0x1F},
                                                     {0x7F, 0x9F},
                                                     {0x61C, 0x61C},
                                                     {0x200B, 0x200B},
                                                     {0x200E, 0x200F},
                                                     {0x2028, 0x202E},
                                                     {0x2060, 0x2060},
                                                     {0x2066, 0x2069},
                                                     {0xFEFF, 0xFEFF},
                                                     {0xFFF9, 0xFFFB},
                                                     {0xE0000, 0xE007F}}};
constexpr std::array<Range, 5> kZeroWidth{
    {{0x300, 0x36F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}}};
constexpr std::array<Range, 9> kWide{{{0x1100, 0x115F},
                                      {0x2E80, 0xA4CF},
                                      {0xAC00, 0xD7A3},
                                      {0xF900, 0xFAFF},
                                      {0xFE30, 0xFE6F},
                                      {0xFF00, 0xFF60},
                                      {0xFFE0, 0xFFE6},
                                      {0x1F300, 0x1FAFF},
                                      {0x20000, 0x3FFFD}}};

int character_width(uint32_t value) { return in_ranges(kZeroWidth, value) ? 0 : in_ranges(kWide, value) ? 2 : 1; }

template <class... Arguments>
std::string format_string(const char* format, Arguments... arguments) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, arguments...);
  return buffer;
}

std::string escape_character(const CodePoint& point) {
  if (!point.valid) return format_string("\\x%02x", point.value);
  if (point.value == '\n') return "\\n";
  if (point.value == '\t') return "\\t";
  if (point.value == '\r') return "\\r";
  if (point.value < 0x80) return format_string("\\x%02x", point.value);
  return format_string(point.value > 0xFFFF ? "\\U%08x" : "\\u%04x", point.value);
}

// Mark the start and the end of a colour in a text; the colour's digit follows the start. They are not valid UTF-8.
constexpr std::string_view kBeginPaint = "\xFF\xFE\xFF", kEndPaint = "\xFE\xFF\xFE";

const char* escape_sequence(Paint paint) {
  switch (paint) {
    case Paint::kBold:
      return "\x1b[1m";
    case Paint::kDim:
      return "\x1b[2m";
    case Paint::kRed:
      return "\x1b[31m";
    case Paint::kGreen:
      return "\x1b[32m";
    case Paint::kYellow:
      return "\x1b[33m";
    case Paint::kBlue:
      return "\x1b[34m";
  }
  return "";
}

}  // namespace

ConsoleOptions detect_console(std::FILE* out, bool quiet) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value ? value : "");
  };
  ConsoleOptions options;
  options.quiet = quiet;
  options.terminal = isatty(fileno(out)) == 1 && variable("TERM") != "dumb";
  options.color = options.terminal && variable("NO_COLOR").empty();
  return options;
}

void Console::progress(std::string_view text) {
  const std::lock_guard lock(mutex_);
  add_to_log(text);
  if (options_.quiet) return;
  progress_ = escape_controls(text);  // after a newline, the next rewrite would replace only the last line
  if (options_.terminal) {
    rewrite_line(progress_);
    live_shown_ = false;
    return;
  }
  progress_pending_ = true;
  if (!ever_printed_ || now() - printed_at_ >= options_.plain_interval) print_plain_progress();
}

void Console::live(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (options_.quiet) return;
  if (options_.terminal) {
    rewrite_line(escape_controls(text));
    live_shown_ = true;
  } else if (now() - last_print_ >= options_.plain_interval) {
    std::fprintf(out_, "%s\n", escape_controls(text).c_str());
    std::fflush(out_);
    last_print_ = now();
  }
}

void Console::keep(std::string_view text) {
  const std::lock_guard lock(mutex_);
  add_to_log(text);
  if (options_.quiet) return;
  progress_pending_ = false;
  const std::string plain = escape_controls(text);
  print_line(options_.terminal ? clip_to_width(plain, width() - 1) : plain);
  ever_printed_ = true;
  printed_at_ = now();
}

/// Uses one column less than the width, because some terminals wrap a full line.
void Console::rewrite_line(std::string_view text) {
  std::fprintf(out_, "\r%s\x1b[K", clip_to_width(text, width() - 1).c_str());
  std::fflush(out_);
  progress_shown_ = true;
}

void Console::end_progress() {
  const std::lock_guard lock(mutex_);
  if (progress_shown_) std::fputs(live_shown_ ? "\r\x1b[K" : "\n", out_);
  if (progress_pending_) print_plain_progress();
  std::fflush(out_);
  progress_shown_ = false;
  ever_printed_ = false;
}

void Console::line(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (!options_.quiet) print_line(text);
  add_to_log(text);
}

void Console::result(std::string_view text) {
  const std::lock_guard lock(mutex_);
  print_line(text);
  add_to_log(text);
}

void Console::warning(std::string_view text) {
  const std::lock_guard lock(mutex_);
  const std::string line = paint(Paint::kYellow, "warning: ") + std::string(text);
  print_line(line);
  add_to_log(line);
}

void Console::heading(std::string_view text) {
  const std::lock_guard lock(mutex_);
  const std::string line = "\n" + paint(Paint::kBold, text);
  if (!options_.quiet) print_line(line);
  add_to_log(line);
}

void Console::begin_log() {
  const std::lock_guard lock(mutex_);
  keeps_lines_ = true;
}

void Console::set_log(std::function<void(std::string_view line)> log) {
  const std::lock_guard lock(mutex_);
  log_ = std::move(log);
  keeps_lines_ = false;
  for (const std::string& line : std::exchange(kept_lines_, {})) log_(line);
}

void Console::log(std::string_view text) {
  const std::lock_guard lock(mutex_);
  add_to_log(text);
}

void Console::add_to_log(std::string_view text) {
  if (!log_ && !keeps_lines_) return;
  std::vector<std::string> earlier;
  {
    const std::scoped_lock lock(unlogged_mutex);
    earlier.swap(unlogged);
  }
  for (const std::string& each : earlier) add_lines_to_log(each);
  add_lines_to_log(text);
}

void Console::add_lines_to_log(std::string_view text) {
  const std::string escaped = escape_except_paint(text, /*with_colors=*/false);
  for (size_t begin = 0; begin <= escaped.size();) {
    const size_t end = std::min(escaped.find('\n', begin), escaped.size());
    const std::string line = escaped.substr(begin, end - begin);
    log_ ? log_(line) : kept_lines_.push_back(line);
    begin = end + 1;
  }
}

std::string Console::paint(Paint paint, std::string_view text) const {
  if (!options_.color) return std::string(text);
  return std::string(kBeginPaint) + static_cast<char>('0' + static_cast<int>(paint)) + std::string(text) +
         std::string(kEndPaint);
}

std::string Console::escape_except_paint(std::string_view text, bool with_colors) const {
  if (!options_.color) return escape_controls(text, Newlines::kKeep);
  std::string out;
  while (!text.empty()) {
    const size_t next = std::min({text.find(kBeginPaint), text.find(kEndPaint), text.size()});
    out += escape_controls(text.substr(0, next), Newlines::kKeep);
    text.remove_prefix(next);
    if (text.starts_with(kEndPaint)) {
      out += with_colors ? "\x1b[0m" : "";
      text.remove_prefix(kEndPaint.size());
    } else if (text.starts_with(kBeginPaint)) {
      const int paint = text.size() > kBeginPaint.size() ? text[kBeginPaint.size()] - '0' : -1;
      if (with_colors && paint >= 0 && paint <= static_cast<int>(Paint::kBlue))
        out += escape_sequence(static_cast<Paint>(paint));
      text.remove_prefix(std::min(kBeginPaint.size() + 1, text.size()));
    }
  }
  return out;
}

int Console::width() const {
  if (options_.width > 0) return options_.width;
  winsize size{};
  if (options_.terminal && ioctl(fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

double Console::now() const { return options_.clock ? options_.clock() : steady_seconds(); }

void Console::print_line(std::string_view text) {
  if (progress_shown_) std::fputs("\r\x1b[K", out_);
  if (progress_pending_) print_plain_progress();
  std::fprintf(out_, "%s\n", escape_except_paint(text, /*with_colors=*/true).c_str());
  std::fflush(out_);
  progress_shown_ = false;
  last_print_ = now();
}

void Console::print_plain_progress() {
  std::fprintf(out_, "%s\n", progress_.c_str());
  std::fflush(out_);
  progress_pending_ = false;
  ever_printed_ = true;
  printed_at_ = last_print_ = now();
}

void print_to_stderr_and_log(std::string_view text) {
  const std::scoped_lock lock(unlogged_mutex);
  std::fwrite(text.data(), 1, text.size(), stderr);
  unlogged.emplace_back(text.substr(0, text.find_last_not_of('\n') + 1));
}

std::string escape_controls(std::string_view text, Newlines newlines) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const bool is_newline_or_tab = point.value == '\n' || point.value == '\t';
    const bool keep = point.valid && (!in_ranges(kControlOrInvisible, point.value) ||
                                      (is_newline_or_tab && newlines == Newlines::kKeep));
    out += keep ? std::string(text.substr(at, point.bytes)) : escape_character(point);
    at += point.bytes;
  }
  return out;
}

std::string escape_json_controls(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (size_t at = 0; at < json.size();) {
    const CodePoint point = code_point_at(json, at);
    const bool is_newline_or_tab = point.value == '\n' || point.value == '\t';
    if (point.value == '\r') {
      out += ' ';  // strings cannot contain it, so it is between tokens
    } else if (!point.valid || is_newline_or_tab || !in_ranges(kControlOrInvisible, point.value)) {
      out += json.substr(at, point.bytes);
    } else if (point.value <= 0xFFFF) {
      out += format_string("\\u%04x", point.value);
    } else {
      const uint32_t rest = point.value - 0x10000;
      out += format_string("\\u%04x\\u%04x", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    }
    at += point.bytes;
  }
  return out;
}

int display_width(std::string_view utf8) {
  int width = 0;
  for (size_t at = 0; at < utf8.size();) {
    const CodePoint point = code_point_at(utf8, at);
    width += character_width(point.value);
    at += point.bytes;
  }
  return width;
}

std::string clip_to_width(std::string_view utf8, int columns) {
  if (columns <= 0) return "";
  if (display_width(utf8) <= columns) return std::string(utf8);
  int width = 0;
  size_t at = 0;
  while (at < utf8.size()) {
    const CodePoint point = code_point_at(utf8, at);
    if (width + character_width(point.value) > columns - 1) break;  // the ellipsis takes one column
    width += character_width(point.value);
    at += point.bytes;
  }
  return std::string(utf8.substr(0, at)) + "…";
}

std::string shorten(std::string_view utf8, size_t bytes) {
  if (utf8.size() <= bytes) return std::string(utf8);
  while (bytes > 0 && (static_cast<unsigned char>(utf8[bytes]) & 0xC0) == 0x80) --bytes;
  return std::string(utf8.substr(0, bytes)) + " … (" + format_count(static_cast<int64_t>(utf8.size() - bytes)) +
         " more bytes)";
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "unknown time";
  if (seconds < 0.9995) return format_string("%.0f ms", seconds * 1000);
  if (seconds < 59.95) return format_string("%.1f s", seconds);
  if (seconds >= 1e12) return "more than 30,000 years";
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) return format_string("%lld min %lld s", whole / 60, whole % 60);
  const long long minutes = (whole + 30) / 60;
  if (minutes < 24 * 60) return format_string("%lld h %lld min", minutes / 60, minutes % 60);
  const long long hours = (whole + 1800) / 3600;
  return format_string("%lld d %lld h", hours / 24, hours % 24);
}

std::string format_count(int64_t count) {
  if (std::fabs(static_cast<double>(count)) < 1e6) {
    std::string digits = std::to_string(std::llabs(count));
    for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<size_t>(at), ",");
    return (count < 0 ? "-" : "") + digits;
  }
  double value = static_cast<double>(count);
  const char* unit = "k";
  for (const char* larger : {"M", "G", "T", "P", "E"}) {
    if (std::fabs(value) < 999.5e3) break;  // below this the number rounds to at most 999 of its unit
    value /= 1000;
    unit = larger;
  }
  value /= 1000;
  const int decimals = std::fabs(value) < 9.995 ? 2 : std::fabs(value) < 99.95 ? 1 : 0;
  return format_string("%.*f %s", decimals, value, unit);
}

std::string format_bytes(int64_t bytes) {
  const char* unit = "KiB";
  double value = static_cast<double>(bytes) / 1024;
  for (const char* larger : {"MiB", "GiB", "TiB"}) {
    if (value < 1023.95) break;  // below this the number rounds to at most 1023.9 of its unit
    value /= 1024;
    unit = larger;
  }
  return format_string("%.1f %s", value, unit);
}

}  // namespace keel
