#include "cli/standard_input.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "keel/core/error.h"
#include "keel/core/files/retry_on_eintr.h"
#include "keel/core/interrupt.h"

namespace keel::cli {
namespace {

/// Returns the next byte, or EOF. A stop request ends the wait.
int next_byte() {
  static std::array<char, 4096> buffer;
  static size_t position = 0, end = 0;
  if (position == end) {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    while (poll_unless_stopped({&input, 1}, /*milliseconds=*/-1) < 1) {
    }
    const ssize_t count = retry_on_eintr([&] { return ::read(STDIN_FILENO, buffer.data(), buffer.size()); });
    if (count < 0) fail(ExitCode::kBadInput, "standard input cannot be read: ", std::strerror(errno));
    position = 0;
    end = static_cast<size_t>(count);
    if (count == 0) return EOF;
  }
  return static_cast<unsigned char>(buffer[position++]);
}

/// Reads up to the byte `end_byte`, which is dropped, or to the end of the input. Returns false if there was no input
/// left.
bool read_up_to(int end_byte, std::string& text) {
  constexpr size_t kMaxBytes = size_t{16} << 20;
  text.clear();
  int byte = 0;
  while ((byte = next_byte()) != EOF && byte != end_byte) {
    if (text.size() == kMaxBytes)
      fail(ExitCode::kBadInput, "standard input: more than 16 MiB", end_byte == '\n' ? " in one line" : "",
           "; expected a prompt");
    text.push_back(static_cast<char>(byte));
  }
  return byte != EOF || !text.empty();
}

/// Removes the carriage return of a Windows line end.
void drop_carriage_return(std::string& line) {
  if (line.ends_with('\r')) line.pop_back();
}

}  // namespace

std::optional<std::string> read_input_line() {
  std::string line;
  if (!read_up_to('\n', line)) return std::nullopt;
  drop_carriage_return(line);
  return line;
}

std::string read_all_input() {
  std::string text;
  read_up_to(EOF, text);
  if (text.ends_with('\n')) text.pop_back();
  drop_carriage_return(text);
  return text;
}

}  // namespace keel::cli
