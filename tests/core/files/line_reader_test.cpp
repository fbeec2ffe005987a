#include "keel/core/files/line_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>

#include "tests/core/files/file_test.h"

namespace keel {
namespace {

TEST_F(FileTest, LineReaderReturnsTheLinesOfGetline) {
  const std::string text =
      "a\n\n" + std::string(4096, 'b') + "\n" + std::string(65535, 'c') + "\n" + std::string(200'000, 'd') + "\nlast";
  for (const std::string& input : {text, text + "\n", std::string(), std::string("\n"), std::string(65536, 'x')}) {
    put(at("f"), input);
    std::istringstream theirs(input);
    LineReader file = LineReader::open(at("f")),
               open = LineReader::of(FileHandle(::open(at("f").c_str(), O_RDONLY)), "it");
    std::string line, expected;
    while (std::getline(theirs, expected)) {
      for (LineReader* ours : {&file, &open}) {
        ASSERT_TRUE(ours->next(line, 200'000));
        EXPECT_EQ(line, expected);
      }
    }
    EXPECT_FALSE(file.next(line, 200'000));
    EXPECT_FALSE(open.next(line, 200'000));
  }
}

TEST_F(FileTest, ALongLineIsTruncated) {
  put(at("f"), std::string(1 << 20, 'x'));
  std::string line;
  EXPECT_TRUE(LineReader::open(at("f")).next(line, 10'000));
  EXPECT_EQ(line, std::string(10'001, 'x'));
}

TEST_F(FileTest, AFailedReadIsAnErrorNotTheEnd) {
  std::string line;
  const auto read = [&](const char* path) {  // reading a folder or memory at address 0 fails
    return error_of([&] { LineReader::of(FileHandle(::open(path, O_RDONLY)), path).next(line, 100); });
  };
  EXPECT_EQ(read("/"), "3: cannot read \"/\": Is a directory; give a file, not a folder");
  EXPECT_EQ(read("/proc/self/mem"),
            "3: cannot read \"/proc/self/mem\": Input/output error; check the disk and the path");
}

}  // namespace
}  // namespace keel
