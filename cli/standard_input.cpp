#include "cli/standard_input.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "keel/core/error.h"
#include "keel/core/files/system_call.h"
#include "keel/core/interrupt.h"

namespace keel::cli {
namespace {

/// The next byte, or EOF; someone who asks to stop does not wait for one to be typed.
int next_byte() {
  static std::array<char, 4096> piece;
  static size_t at = 0, end = 0;
  if (at == end) {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    while (poll_unless_stopped({&input, 1}, /*milliseconds=*/-1) < 1) {
    }
    const ssize_t got = uninterrupted([&] { return ::read(STDIN_FILENO, piece.data(), piece.size()); });
    if (got < 0) fail(ExitCode::kBadInput, "standard input cannot be read: ", std::strerror(errno));
    at = 0;
    end = static_cast<size_t>(got);
    if (got == 0) return EOF;
  }
  return static_cast<unsigned char>(piece[at++]);
}

/// Up to a byte, which is left out, or to the end of all (EOF); false where that is all there was.
bool read_up_to(int last, std::string& text) {
  constexpr size_t kMost = size_t{16} << 20;
  text.clear();
  int c = 0;
  while ((c = next_byte()) != EOF && c != last) {
    if (text.size() == kMost)
      fail(ExitCode::kBadInput, "standard input: more than 16 MiB", last == '\n' ? " in one line" : "",
           "; expected a prompt");
    text.push_back(static_cast<char>(c));
  }
  return c != EOF || !text.empty();
}

/// Of a file that was written on Windows.
void drop_carriage_return(std::string& line) {
  if (line.ends_with('\r')) line.pop_back();
}

}  // namespace

std::optional<std::string> next_line_of_input() {
  std::string line;
  if (!read_up_to('\n', line)) return std::nullopt;
  drop_carriage_return(line);
  return line;
}

std::string all_of_input() {
  std::string text;
  read_up_to(EOF, text);
  if (text.ends_with('\n')) text.pop_back();
  drop_carriage_return(text);
  return text;
}

}  // namespace keel::cli
