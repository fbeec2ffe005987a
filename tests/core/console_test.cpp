#include "keel/core/console.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "keel/core/json.h"

namespace keel {
namespace {

/// Records a console's output. The test sets the clock.
struct Recording {
  char* data = nullptr;
  size_t size = 0;
  std::FILE* file = open_memstream(&data, &size);
  double time = 0;

  ConsoleOptions options(bool terminal, bool color = false) {
    return {.terminal = terminal, .color = color, .width = 20, .clock = [this] { return time; }};
  }
  std::string text() {
    std::fflush(file);
    return std::string(data, size);
  }
  ~Recording() {
    std::fclose(file);
    std::free(data);
  }
};

const std::string kLong = "123456789012345678901234";

TEST(Console, PrintsForATerminalAndForAPipe) {
  struct Case {
    const char* what;
    bool terminal, color;
    std::function<void(Console&, double& time)> print;
    std::string output;  // includes that of the destructor
  };
  const std::vector<Case> cases{
      {"a line clears the progress that was rewritten", true, false,
       [](Console& c, double&) { c.progress("step 1"), c.progress("step 2"), c.line("done"); },
       "\rstep 1\x1b[K\rstep 2\x1b[K\r\x1b[Kdone\n"},
      {"control characters in progress are escaped", true, false, [](Console& c, double&) { c.progress("a\n\x1b[2J"), c.line(""); },
       "\ra\\n\\x1b[2J\x1b[K\r\x1b[K\n"},
      {"progress ends one column short of the edge", true, false,
       [](Console& c, double&) { c.progress(kLong), c.line(""); }, "\r123456789012345678…\x1b[K\r\x1b[K\n"},
      {"kept progress is clipped as well", true, false, [](Console& c, double&) { c.keep(kLong); }, "123456789012345678…\n"},
      {"kept progress is not clipped in a pipe", false, false, [](Console& c, double&) { c.keep(kLong); }, kLong + "\n"},
      {"a pipe gets the first progress, one every ten seconds, and the last", false, false,
       [](Console& c, double& time) {
         for (; time <= 25; ++time) c.progress("step " + std::to_string(static_cast<int>(time)));
       },
       "step 0\nstep 10\nstep 20\nstep 25\n"},
      {"the latest progress is printed before a line", false, false,
       [](Console& c, double&) { c.progress("step 1"), c.progress("step 2"), c.line("evaluation: 0.5"); },
       "step 1\nstep 2\nevaluation: 0.5\n"},
      {"live progress is erased at the end", true, false,
       [](Console& c, double&) { c.live("rollout 1/8"), c.live("rollout 2/8"); },
       "\rrollout 1/8\x1b[K\rrollout 2/8\x1b[K\r\x1b[K"},
      {"a pipe gets live progress after ten seconds without output", false, false,
       [](Console& c, double& time) {
         for (; time <= 25; ++time) {
           if (time == 13) c.line("evaluation: 0.5");
           c.live("rollout " + std::to_string(static_cast<int>(time)));
         }
       },
       "rollout 10\nevaluation: 0.5\nrollout 23\n"},
      {"a kept line replaces the progress before it", false, false,
       [](Console& c, double& time) {
         for (time = 1; time <= 6; ++time) {
           const std::string text = "step " + std::to_string(static_cast<int>(time));
           time == 4 ? c.keep(text) : c.progress(text);
         }
       },
       "step 1\nstep 4\nstep 6\n"},
      {"a kept line replaces the progress on a terminal", true, false, [](Console& c, double&) { c.progress("step 1"), c.keep("step 2"); },
       "\rstep 1\x1b[K\r\x1b[Kstep 2\n"},
      {"a heading and a warning without colours", false, false, [](Console& c, double&) { c.heading("Training"), c.warning("slow disk"); },
       "\nTraining\nwarning: slow disk\n"},
      {"colours end with the text", true, true,
       [](Console& c, double&) {
         c.line("all " + c.paint(Paint::kGreen, "ok") + c.paint(Paint::kRed, "!"));
         c.warning("slow");
       },
       "all \x1b[32mok\x1b[0m\x1b[31m!\x1b[0m\n\x1b[33mwarning: \x1b[0mslow\n"}};
  for (const Case& one : cases) {
    Recording out;
    {
      Console console(out.file, out.options(one.terminal, one.color));
      one.print(console, out.time);
    }
    EXPECT_EQ(out.text(), one.output) << one.what;
  }
}

TEST(Console, WhenQuietPrintsOnlyWarningsAndResults) {
  for (const bool terminal : {false, true}) {
    Recording out;
    {
      ConsoleOptions options = out.options(terminal);
      options.quiet = true;
      Console console(out.file, options);
      console.progress("step 1");
      console.live("rollout 1/8");
      out.time = 100;
      console.live("rollout 2/8");
      console.keep("step 2");
      console.line("a line");
      console.heading("a heading");
      console.warning("beware");
      console.result("0.5");
      console.end_progress();
    }
    EXPECT_EQ(out.text(), "warning: beware\n0.5\n");
  }
}

TEST(Console, TheLogGetsAllLinesFromItsBeginningAlsoWhatAQuietConsoleHides) {
  for (const auto& [quiet, terminal] : {std::pair{false, false}, {false, true}, {true, false}}) {
    Recording out;
    ConsoleOptions options = out.options(terminal, /*color=*/terminal);
    options.quiet = quiet;
    std::vector<std::string> log;
    Console console(out.file, options);
    console.line("before");
    console.begin_log();
    console.line("a" + console.paint(Paint::kRed, "b\x1b[2J"));
    console.warning("beware\nof this");
    EXPECT_TRUE(log.empty());
    console.set_log([&](std::string_view line) { log.emplace_back(line); });
    console.heading("Training");
    console.progress("step 1");
    console.live("rollout 1/8");
    console.progress("step 2");
    console.keep(kLong);
    console.log("a note");
    console.result("0.5");
    console.end_progress();
    const std::vector<std::string> expected{"ab\\x1b[2J", "warning: beware", "of this", "",       "Training",
                                            "step 1",     "step 2",          kLong,     "a note", "0.5"};
    EXPECT_EQ(log, expected);
    EXPECT_EQ(out.text().find("a note"), std::string::npos);
  }
}

TEST(Console, TextCannotControlTheTerminal) {
  for (const bool color : {false, true}) {
    Recording out;
    Console console(out.file, out.options(true, color));
    console.line("a\tb\n\x1b[31mred\x07" + console.paint(Paint::kDim, "\x1b[2J\xC2\x9B"));
    console.warning("\x1b]0;title\x07");
    console.heading("\xE2\x80\xAE");
    std::string text = out.text();
    for (const std::string code : {"\x1b[2m", "\x1b[0m", "\x1b[33m", "\x1b[1m"})
      for (size_t at = text.find(code); color && at != std::string::npos; at = text.find(code))
        text.erase(at, code.size());
    EXPECT_EQ(text, "a\tb\n\\x1b[31mred\\x07\\x1b[2J\\u009b\nwarning: \\x1b]0;title\\x07\n\n\\u202e\n");
  }
}

TEST(Console, AFileIsNotATerminalAndHasNoColours) {
  std::FILE* file = std::tmpfile();
  const ConsoleOptions options = detect_console(file);
  EXPECT_FALSE(options.terminal);
  EXPECT_FALSE(options.color);
  EXPECT_EQ(Console(file).width(), 80);
  std::fclose(file);
}

TEST(EscapeControls, EscapesControlsBidiMarksAndInvalidBytes) {
  EXPECT_EQ(escape_controls("a\tb\r\n"), "a\\tb\\r\\n");
  EXPECT_EQ(escape_controls("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(escape_controls("\x7f"), "\\x7f");
  EXPECT_EQ(escape_controls("\xC2\x9B"
                            "31m"),
            "\\u009b31m");                                        // the one-character form of ESC [
  EXPECT_EQ(escape_controls("x\xE2\x80\xAEy"), "x\\u202ey");      // right-to-left override
  EXPECT_EQ(escape_controls("\xE2\x81\xA6"), "\\u2066");          // left-to-right isolate
  EXPECT_EQ(escape_controls("\xF3\xA0\x81\x81"), "\\U000e0041");  // an invisible tag letter
  EXPECT_EQ(escape_controls("\xFF\xC3"), "\\xff\\xc3");           // not UTF-8
  EXPECT_EQ(escape_controls("\xC0\xAF"), "\\xc0\\xaf");           // an overlong slash
  EXPECT_EQ(escape_controls(std::string_view("\0", 1)), "\\x00");
}

TEST(EscapeControls, PreservesTheValueOfJson) {
  const std::string json = "{\"a\x7f\": \"\xC2\x9B\xE2\x80\xAE\xF3\xA0\x81\x81 \\u001b 数\",\r\n\t\"b\": 1}";
  const std::string escaped = escape_json_controls(json);
  EXPECT_EQ(escaped, "{\"a\\u007f\": \"\\u009b\\u202e\\udb40\\udc41 \\u001b 数\", \n\t\"b\": 1}");
  EXPECT_EQ(Json::parse(escaped), Json::parse(json));
}

TEST(EscapeControls, DoesNotChangeOrdinaryTextInAnyScript) {
  EXPECT_EQ(escape_controls("Grüße, 数学 😀 π≈3.14"), "Grüße, 数学 😀 π≈3.14");
  EXPECT_EQ(escape_controls("a\n\tb", Newlines::kKeep), "a\n\tb");
}

TEST(DisplayWidth, CountsColumnsNotBytes) {
  for (const auto& [text, width] : {std::pair{"abc", 3}, {"Grüße", 5}, {"数学", 4}, {"e\xCC\x81", 1}, {"😀", 2}})
    EXPECT_EQ(display_width(text), width) << text;  // the fourth is e with a combining acute accent
}

TEST(ClipToWidth, NeverSplitsACharacter) {
  for (const auto& [text, width, clipped] : {std::tuple{"数学数学", 5, "数学…"}, {"数学数学", 4, "数…"},
                                             {"数学", 4, "数学"}, {"abc", 1, "…"}, {"abc", 0, ""}})
    EXPECT_EQ(clip_to_width(text, width), clipped);
}

TEST(FormatDuration, UsesTheUnitThatFitsTheLength) {
  for (const auto& [seconds, text] : {std::pair{0.0123, "12 ms"}, {3.42, "3.4 s"}, {59.96, "1 min 0 s"},
                                      {75.0, "1 min 15 s"}, {3599.7, "1 h 0 min"}, {7500.0, "2 h 5 min"},
                                      {97200.0, "1 d 3 h"}, {-1.0, "unknown time"}})
    EXPECT_EQ(format_duration(seconds), text);
}

TEST(FormatCount, IsExactBelowAMillionAndHasThreeDigitsAbove) {
  for (const auto& [count, text] : {std::pair{int64_t{0}, "0"}, {999, "999"}, {-12345, "-12,345"}, {999999, "999,999"},
                                    {1234567, "1.23 M"}, {999999999, "1.00 G"}, {12400000000, "12.4 G"}})
    EXPECT_EQ(format_count(count), text);
}

TEST(FormatBytes, UsesTheUnitThatKeepsTheNumberBelow1024) {
  for (const auto& [bytes, text] : {std::pair{int64_t{0}, "0.0 KiB"}, {1536, "1.5 KiB"}, {1 << 20, "1.0 MiB"},
                                    {(1 << 20) - 1, "1.0 MiB"}, {(1 << 20) - 100, "1023.9 KiB"},
                                    {int64_t{3} << 29, "1.5 GiB"}, {int64_t{5} << 41, "10.0 TiB"}})
    EXPECT_EQ(format_bytes(bytes), text);
}

}  // namespace
}  // namespace keel
