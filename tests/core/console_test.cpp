#include "keel/core/console.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "keel/core/json.h"

namespace keel {
namespace {

/// Everything a console writes, and a clock the test turns by hand.
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

TEST(Console, OnATerminalProgressRewritesOneLineAndALineClearsItFirst) {
  Recording out;
  Console console(out.file, out.options(true));
  console.progress("step 1");
  console.progress("step 2");
  console.line("done");
  EXPECT_EQ(out.text(), "\rstep 1\x1b[K\rstep 2\x1b[K\r\x1b[Kdone\n");
}

TEST(Console, ProgressIsClippedOneColumnShortOfTheTerminalsEdge) {
  Recording out;
  Console console(out.file, out.options(true));
  console.progress("123456789012345678901234");
  EXPECT_EQ(out.text(), "\r123456789012345678…\x1b[K");
}

TEST(Console, AProgressLineThatStaysIsClippedOnATerminalAlone) {
  const std::string text = "123456789012345678901234";
  Recording terminal, pipe;
  Console(terminal.file, terminal.options(true)).keep(text);
  Console(pipe.file, pipe.options(false)).keep(text);
  EXPECT_EQ(terminal.text(), "123456789012345678…\n");
  EXPECT_EQ(pipe.text(), text + "\n");
}

TEST(Console, QuietlyWarningsAndResultsAreAllThatIsPrinted) {
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

TEST(Console, WithoutATerminalProgressIsPrintedFirstThenEveryTenSecondsThenLast) {
  Recording out;
  {
    Console console(out.file, out.options(false));
    for (int step = 0; step <= 25; ++step) {
      out.time = step;
      console.progress("step " + std::to_string(step));
    }
  }
  EXPECT_EQ(out.text(), "step 0\nstep 10\nstep 20\nstep 25\n");
}

TEST(Console, WithoutATerminalTheLatestProgressComesBeforeALineThatFollowsIt) {
  Recording out;
  Console console(out.file, out.options(false));
  console.progress("step 1");
  console.progress("step 2");
  console.line("evaluation: 0.5");
  EXPECT_EQ(out.text(), "step 1\nstep 2\nevaluation: 0.5\n");
}

TEST(Console, OnATerminalWhatIsUnderWayIsRewrittenAndNeverStays) {
  Recording out;
  {
    Console console(out.file, out.options(true));
    console.live("rollout 1/8");
    console.live("rollout 2/8");
  }
  EXPECT_EQ(out.text(), "\rrollout 1/8\x1b[K\rrollout 2/8\x1b[K\r\x1b[K");
}

TEST(Console, WithoutATerminalWhatIsUnderWayIsPrintedOnlyAfterAWhileOfSilence) {
  Recording out;
  {
    Console console(out.file, out.options(false));
    for (int second = 0; second <= 25; ++second) {
      out.time = second;
      if (second == 13) console.line("evaluation: 0.5");
      console.live("rollout " + std::to_string(second));
    }
  }
  EXPECT_EQ(out.text(), "rollout 10\nevaluation: 0.5\nrollout 23\n");
}

TEST(Console, ALineThatIsKeptStandsForTheProgressBeforeIt) {
  Recording out;
  {
    Console console(out.file, out.options(false));
    for (int step = 1; step <= 6; ++step) {
      out.time = step;
      if (step == 4)
        console.keep("step 4");
      else
        console.progress("step " + std::to_string(step));
    }
  }
  EXPECT_EQ(out.text(), "step 1\nstep 4\nstep 6\n");
  Recording terminal;
  Console console(terminal.file, terminal.options(true));
  console.progress("step 1");
  console.keep("step 2");
  EXPECT_EQ(terminal.text(), "\rstep 1\x1b[K\r\x1b[Kstep 2\n");
}

TEST(Console, WithoutColoursNothingButThePlainTextIsWritten) {
  Recording out;
  Console console(out.file, out.options(false));
  console.heading("Training");
  console.warning("slow disk");
  EXPECT_EQ(out.text(), "\nTraining\nwarning: slow disk\n");
}

TEST(Console, ColoursAreEscapeSequencesThatEndWithTheText) {
  Recording out;
  Console console(out.file, out.options(true, true));
  console.line("all " + console.paint(Paint::kGreen, "ok") + console.paint(Paint::kRed, "!"));
  console.warning("slow");
  EXPECT_EQ(out.text(), "all \x1b[32mok\x1b[0m\x1b[31m!\x1b[0m\n\x1b[33mwarning: \x1b[0mslow\n");
}

TEST(Console, NoTextCanSteerTheTerminalPaintedOrNot) {
  for (const bool color : {false, true}) {
    Recording out;
    Console console(out.file, out.options(true, color));
    console.line("a\tb\n\x1b[31mred\x07" + console.paint(Paint::kDim, "\x1b[2J\xC2\x9B"));
    console.warning("\x1b]0;title\x07");
    console.heading("\xE2\x80\xAE");
    std::string text = out.text();
    for (const std::string ours : {"\x1b[2m", "\x1b[0m", "\x1b[33m", "\x1b[1m"})
      for (size_t at = text.find(ours); color && at != std::string::npos; at = text.find(ours))
        text.erase(at, ours.size());
    EXPECT_EQ(text, "a\tb\n\\x1b[31mred\\x07\\x1b[2J\\u009b\nwarning: \\x1b]0;title\\x07\n\n\\u202e\n");
  }
}

TEST(Console, AFileIsNoTerminalAndGetsNoColours) {
  std::FILE* file = std::tmpfile();
  const ConsoleOptions options = detect_console(file);
  EXPECT_FALSE(options.terminal);
  EXPECT_FALSE(options.color);
  EXPECT_EQ(Console(file).width(), 80);
  std::fclose(file);
}

TEST(Console, AProgressTextCannotSteerTheTerminal) {
  Recording out;
  Console console(out.file, out.options(true));
  console.progress("a\n\x1b[2J");
  EXPECT_EQ(out.text(), "\ra\\n\\x1b[2J\x1b[K");
}

TEST(EscapeControls, MakesControlsBidiMarksAndBrokenBytesVisible) {
  EXPECT_EQ(escape_controls("a\tb\r\n"), "a\\tb\\r\\n");
  EXPECT_EQ(escape_controls("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(escape_controls("\x7f"), "\\x7f");
  EXPECT_EQ(escape_controls("\xC2\x9B"
                            "31m"),
            "\\u009b31m");                                        // the one-character form of ESC [
  EXPECT_EQ(escape_controls("x\xE2\x80\xAEy"), "x\\u202ey");      // right-to-left override
  EXPECT_EQ(escape_controls("\xE2\x81\xA6"), "\\u2066");          // left-to-right isolate
  EXPECT_EQ(escape_controls("\xF3\xA0\x81\x81"), "\\U000e0041");  // an invisible tag letter
  EXPECT_EQ(escape_controls("\xFF\xC3"), "\\xff\\xc3");           // no UTF-8
  EXPECT_EQ(escape_controls("\xC0\xAF"), "\\xc0\\xaf");           // an overlong slash
  EXPECT_EQ(escape_controls(std::string_view("\0", 1)), "\\x00");
}

TEST(EscapeControls, OfJsonKeepsItsValue) {
  const std::string json = "{\"a\x7f\": \"\xC2\x9B\xE2\x80\xAE\xF3\xA0\x81\x81 \\u001b 数\",\r\n\t\"b\": 1}";
  const std::string escaped = escape_json_controls(json);
  EXPECT_EQ(escaped, "{\"a\\u007f\": \"\\u009b\\u202e\\udb40\\udc41 \\u001b 数\", \n\t\"b\": 1}");
  EXPECT_EQ(Json::parse(escaped), Json::parse(json));
}

TEST(EscapeControls, LeavesOrdinaryTextOfEveryScriptAlone) {
  EXPECT_EQ(escape_controls("Grüße, 数学 😀 π≈3.14"), "Grüße, 数学 😀 π≈3.14");
  EXPECT_EQ(escape_controls("a\n\tb", Newlines::kKeep), "a\n\tb");
}

TEST(DisplayWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("Grüße"), 5);
  EXPECT_EQ(display_width("数学"), 4);
  EXPECT_EQ(display_width("e\xCC\x81"), 1);  // e and a combining acute accent
  EXPECT_EQ(display_width("😀"), 2);
}

TEST(ClipToWidth, NeverCutsACharacterInTwo) {
  EXPECT_EQ(clip_to_width("数学数学", 5), "数学…");
  EXPECT_EQ(clip_to_width("数学数学", 4), "数…");
  EXPECT_EQ(clip_to_width("数学", 4), "数学");
  EXPECT_EQ(clip_to_width("abc", 1), "…");
  EXPECT_EQ(clip_to_width("abc", 0), "");
}

TEST(FormatDuration, PicksTheUnitAReaderWouldPick) {
  EXPECT_EQ(format_duration(0.0123), "12 ms");
  EXPECT_EQ(format_duration(3.42), "3.4 s");
  EXPECT_EQ(format_duration(59.96), "1 min 0 s");
  EXPECT_EQ(format_duration(75), "1 min 15 s");
  EXPECT_EQ(format_duration(3599.7), "1 h 0 min");
  EXPECT_EQ(format_duration(7500), "2 h 5 min");
  EXPECT_EQ(format_duration(97200), "1 d 3 h");
  EXPECT_EQ(format_duration(-1), "unknown time");
}

TEST(FormatCount, IsExactBelowAMillionAndThreeDigitsAbove) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(-12345), "-12,345");
  EXPECT_EQ(format_count(999999), "999,999");
  EXPECT_EQ(format_count(1234567), "1.23 M");
  EXPECT_EQ(format_count(999999999), "1.00 G");
  EXPECT_EQ(format_count(12400000000), "12.4 G");
}

TEST(FormatBytes, HasTheUnitThatLeavesTheNumberBelow1024) {
  EXPECT_EQ(format_bytes(0), "0.0 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(1 << 20), "1.0 MiB");
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes((1 << 20) - 100), "1023.9 KiB");
  EXPECT_EQ(format_bytes(int64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(format_bytes(int64_t{5} << 41), "10.0 TiB");
}

}  // namespace
}  // namespace keel
