#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace keel {

/// Settings of a console. `detect_console` fills them from the stream and the environment.
struct ConsoleOptions {
  bool terminal = false;               // true: progress rewrites one line; false: it prints a plain line now and then
  bool color = false;                  // escape sequences for bold and colours
  int width = 0;                       // columns; 0: queried from the terminal at each use, so that resizing works
  bool quiet = false;                  // only warnings and results are printed
  double plain_interval = 10;          // seconds between progress lines without a terminal
  std::function<double()> clock = {};  // seconds; empty: the steady clock
};

/// Detects whether `out` is a terminal (TERM=dumb is not). Enables colours unless NO_COLOR is set.
ConsoleOptions detect_console(std::FILE* out, bool quiet = false);

enum class Paint { kBold, kDim, kRed, kGreen, kYellow, kBlue };

/// Prints the output of commands: complete lines, and below them one progress line that is rewritten.
class Console {
 public:
  explicit Console(std::FILE* out = stdout, bool quiet = false) : Console(out, detect_console(out, quiet)) {}
  Console(std::FILE* out, ConsoleOptions options) : out_(out), options_(std::move(options)) { last_print_ = now(); }
  ~Console() { end_progress(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Rewrites the progress line. Without a terminal, prints it every `plain_interval` seconds.
  void progress(std::string_view text);
  /// Shows transient progress, which is erased from a terminal at the end. Without a terminal, it is printed only after
  /// `plain_interval` seconds without other output.
  void live(std::string_view text);
  /// Replaces the progress line by one that stays.
  void keep(std::string_view text);
  /// Keeps the last progress line on the screen. The next progress starts a new line.
  void end_progress();
  /// Prints the text and a newline. Newlines, tabs and the colours of `paint` stay; `escape_controls` escapes other
  /// control characters.
  void line(std::string_view text = "");
  /// Prints a command's result like line(), even if the console is quiet.
  void result(std::string_view text);
  /// Prints a line that starts with "warning: ", even if the console is quiet.
  void warning(std::string_view text);
  /// Prints a bold line with an empty line above it.
  void heading(std::string_view text);

  /// Keeps what is printed from now on, until set_log() is called.
  void begin_log();
  /// Passes the kept lines and all further ones to `log`: everything that is printed or that a quiet console hides,
  /// without colours. Of the progress it gets each text of progress() and keep(), and nothing of live().
  void set_log(std::function<void(std::string_view line)> log);
  /// Adds a text to the log only.
  void log(std::string_view text);

  /// Returns the text in a colour for the functions above, or the text itself if colours are off.
  std::string paint(Paint paint, std::string_view text) const;
  /// Returns the terminal's width in columns, or 80 without a terminal.
  int width() const;
  bool terminal() const { return options_.terminal; }

 private:
  double now() const;
  std::string escape_except_paint(std::string_view text, bool with_colors) const;
  void add_to_log(std::string_view text);
  void add_lines_to_log(std::string_view text);
  void print_line(std::string_view text);
  void print_plain_progress();
  void rewrite_line(std::string_view text);

  std::FILE* out_;
  ConsoleOptions options_;
  std::mutex mutex_;
  std::function<void(std::string_view)> log_;  // empty: no log, or not yet
  bool keeps_lines_ = false;                   // begin_log() was called, and set_log() was not
  std::vector<std::string> kept_lines_;
  std::string progress_;           // the latest text given to progress()
  bool progress_shown_ = false;    // terminal: the cursor is on a progress line
  bool live_shown_ = false;        // terminal: live() printed that line
  bool progress_pending_ = false;  // no terminal: progress_ has not been printed yet
  bool ever_printed_ = false;      // no terminal: printed_at_ is valid
  double printed_at_ = 0;          // time of the last progress line
  double last_print_ = 0;          // time of the last output of any kind
};

/// Prints a text to stderr, from any thread. The log of the process's run gets it before its next line.
void print_to_stderr_and_log(std::string_view text);

enum class Newlines { kEscape, kKeep };

/// Escapes characters that could control a terminal or reorder a line: C0 and C1 controls, DEL, bidi controls,
/// invisible marks and invalid UTF-8 become \n, \x1b, \u202e and so on. kKeep leaves newlines and tabs unchanged.
std::string escape_controls(std::string_view text, Newlines newlines = Newlines::kEscape);

/// Escapes the same characters in JSON as \u009b, \u202e and so on. The result parses to the same value.
std::string escape_json_controls(std::string_view json);

/// Counts the columns of the text on a terminal: 0 for combining marks, 2 for wide East Asian characters and emoji.
int display_width(std::string_view utf8);

/// Truncates the text to `columns` columns, with an ellipsis at the end if something was cut.
std::string clip_to_width(std::string_view utf8, int columns);

/// Truncates the text to at most `bytes` bytes of whole characters and appends how many bytes were cut.
std::string shorten(std::string_view utf8, size_t bytes);

/// Formats a duration: "12 ms", "3.4 s", "1 min 15 s", "2 h 5 min", "1 d 3 h".
std::string format_duration(double seconds);

/// Formats a count: exact with separators below a million ("12,345"), then with three digits ("1.23 M").
std::string format_count(int64_t count);

/// Formats a memory size: "12.3 KiB", "4.0 MiB", "1.5 GiB".
std::string format_bytes(int64_t bytes);

}  // namespace keel
