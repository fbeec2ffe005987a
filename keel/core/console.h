#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace keel {

/// How a console behaves; `detect_console` fills it from the stream and the environment.
struct ConsoleOptions {
  bool terminal = false;               // progress rewrites one line; otherwise it becomes occasional plain lines
  bool color = false;                  // escape sequences for bold and colours
  int width = 0;                       // columns; 0 asks the terminal each time, so that a resized window is noticed
  bool quiet = false;                  // only warnings and results are printed
  double plain_interval = 10;          // seconds between progress lines where there is no terminal
  std::function<double()> clock = {};  // seconds; empty is the steady clock
};

/// Terminal or not (a dumb one counts as not), and colours unless NO_COLOR is set.
ConsoleOptions detect_console(std::FILE* out, bool quiet = false);

enum class Paint { kBold, kDim, kRed, kGreen, kYellow, kBlue };

/// Where commands print: finished lines, and one line of progress that never gets between them.
class Console {
 public:
  explicit Console(std::FILE* out = stdout, bool quiet = false) : Console(out, detect_console(out, quiet)) {}
  Console(std::FILE* out, ConsoleOptions options) : out_(out), options_(std::move(options)) { last_print_ = now(); }
  ~Console() { end_progress(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Shows where things stand: rewrites the progress line, or prints it now and then where there is no terminal.
  void progress(std::string_view text);
  /// The same of what is under way, which is soon no longer true: without a terminal it is printed only where nothing
  /// else was for a while, and it never stays on a terminal.
  void live(std::string_view text);
  /// A progress line that stays, in the place of the one before.
  void keep(std::string_view text);
  /// Leaves the last progress line standing and starts a new one next time.
  void end_progress();
  /// Prints the text and a newline. Newlines and tabs in it stay; what could steer the terminal becomes visible, as by
  /// `escape_controls`, but for the colours of `paint`.
  void line(std::string_view text = "");
  /// The same of what a command was called for: also printed where the console is quiet.
  void result(std::string_view text);
  /// Prints a line that starts with "warning: "; also where the console is quiet.
  void warning(std::string_view text);
  /// Prints a bold line with an empty line above it.
  void heading(std::string_view text);

  /// The text in a colour where colours are on, else the text itself; for the functions above.
  std::string paint(Paint paint, std::string_view text) const;
  /// Columns to fill: the terminal's width, or 80 where there is none.
  int width() const;
  bool terminal() const { return options_.terminal; }

 private:
  double now() const;
  std::string visible(std::string_view text) const;
  void print_line(std::string_view text);
  void print_plain_progress();
  void rewrite_line(std::string_view text);

  std::FILE* out_;
  ConsoleOptions options_;
  std::mutex mutex_;
  std::string progress_;         // the latest text given to progress()
  bool progress_shown_ = false;  // terminal: a progress line stands at the cursor
  bool live_shown_ = false;      // terminal: and it is one of live()
  bool progress_waits_ = false;  // no terminal: progress_ has not been printed yet
  bool ever_printed_ = false;    // no terminal: printed_at_ holds a time
  double printed_at_ = 0;
  double last_print_ = 0;  // of anything
};

enum class Newlines { kEscape, kKeep };

/// Makes what could steer a terminal or reorder a line visible: C0 and C1 controls, DEL, bidi controls, invisible
/// marks and bytes that are not UTF-8 become \n, \x1b, \u202e and so on. kKeep leaves newlines and tabs as they are.
std::string escape_controls(std::string_view text, Newlines newlines = Newlines::kEscape);

/// The same of JSON, which stays JSON of the same value: they become \u009b, \u202e and so on inside its strings.
std::string escape_json_controls(std::string_view json);

/// Columns the text takes on a terminal: combining marks take none, East Asian wide characters and emoji two.
int display_width(std::string_view utf8);

/// The longest beginning of the text that fits into `columns`, ending in an ellipsis when something was cut.
std::string clip_to_width(std::string_view utf8, int columns);

/// The beginning of a text, cut at a character so that at most `bytes` bytes remain, with a note of what was left out.
std::string shorten(std::string_view utf8, size_t bytes);

/// A duration for people: "12 ms", "3.4 s", "1 min 15 s", "2 h 5 min", "1 d 3 h".
std::string format_duration(double seconds);

/// A count for people: exact with separators below a million ("12,345"), then three digits ("1.23 M").
std::string format_count(int64_t count);

/// Memory for people: "12.3 KiB", "4.0 MiB", "1.5 GiB".
std::string format_bytes(int64_t bytes);

}  // namespace keel
