#include "keel/record/tools/event_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "keel/core/files/file.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

std::string to_hex_digits(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    char digits[3];
    snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(c));
    text += digits;
  }
  return text;
}

/// Splits a file into records by their lengths, without checking the checksums.
std::vector<std::string> records_in(const std::string& bytes) {
  std::vector<std::string> records;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    records.push_back(bytes.substr(at + 12, length));
    at += length + 16;
  }
  return records;
}

// As tensorboard 2.21.0's RecordWriter writes them.
TEST(TfRecord, HasLengthAndMaskedChecksums) {
  EXPECT_EQ(to_hex_digits(tfrecord("keel")), "0400000000000000424552046b65656cf28207f2");
  EXPECT_EQ(to_hex_digits(tfrecord("")), "000000000000000029039807d8ea82a2");
}

// Event(wall_time=1.5, step=300, summary={a: 0.1, b/c: -2}), as protobuf serializes it.
TEST(EventFile, WritesOneEventPerStep) {
  const TestFolder folder;
  EventFile file = EventFile::begin(folder.path / "tb", "", "");
  const size_t head = read_file(file.path()).size();
  file.add({.phase = "rl", .step = 300, .time = 1.5, .values = {{"b/c", -2}, {"a", 0.1}, {kClockMetric, 1.5}}});
  EXPECT_EQ(to_hex_digits(read_file(file.path()).substr(head)),
            "2400000000000000422b804d09000000000000f83f10ac022a160a080a016115cdcccc3d0a0a0a03622f6315000000c099c4cf5e");
}

TEST(EventFile, WritesAMetricOfAStepOnce) {
  const TestFolder folder;
  EventFile file = EventFile::begin(folder.path, "", "a1");
  file.add({.phase = "rl", .step = 4, .time = 1, .values = {{"updates", 8}}});
  file.add({.phase = "eval", .step = 4, .time = 2, .values = {{"updates", 8}, {"eval/accuracy", 0.5}}});
  file.add({.phase = "rl", .step = 5, .time = 3, .values = {{"updates", 8}}});
  std::vector<bool> has;
  for (const std::string& record : records_in(read_file(file.path())))
    has.push_back(record.find("updates") != std::string::npos);
  EXPECT_EQ(has, (std::vector<bool>{false, false, true, false, true}));  // version and start come first
}

TEST(EventFile, NewFileSortsLaterAndReplacesOlderOnes) {
  const TestFolder folder;
  const EventFile first = EventFile::begin(folder.path, "", "a1"), other = EventFile::begin(folder.path, "", "b2"),
                  second = EventFile::begin(folder.path, "", ""), third = EventFile::begin(folder.path, "", "a1");
  EXPECT_LT(first.path().filename(), other.path().filename());
  EXPECT_LT(other.path().filename(), second.path().filename());
  EXPECT_LT(second.path().filename(), third.path().filename());
  folder.write("events.out.tfevents.123.host", "another's");
  const std::string written = read_file(third.path()), of_other = read_file(other.path());
  third.replace_older();
  EXPECT_FALSE(std::filesystem::exists(first.path()));
  EXPECT_EQ(read_file(second.path()), "");  // a TensorBoard may have it open
  EXPECT_EQ(read_file(third.path()), written);
  EXPECT_EQ(read_file(other.path()), of_other);
  EXPECT_EQ(list_directory(folder.path).size(), 4u);
}

TEST(EventFile, DoesNotTruncateTheTargetOfALink) {
  const TestFolder folder;
  const std::filesystem::path tools = folder.path / "tools", mine = folder.path / "mine";
  create_directories(tools);
  folder.write("mine", "precious");
  std::filesystem::create_symlink(mine, tools / "events.out.tfevents.123.keel");
  EventFile::begin(tools, "", "ab12").replace_older();
  EXPECT_EQ(read_file(mine), "precious");
  EXPECT_EQ(list_directory(tools).size(), 1u);
}

TEST(EventFile, RecognisesItsNames) {
  EXPECT_TRUE(EventFile::is_own("events.out.tfevents.1700000000.keel", "a1"));
  EXPECT_TRUE(EventFile::is_own("events.out.tfevents.1700000000.a1.keel", "a1"));
  for (const char* name : {"events.out.tfevents.1700000000.host", "events.out.tfevents..keel",
                           "events.out.tfevents.keel", "events.out.tfevents.1700000000.b2.keel",
                           "events.out.tfevents.1700000000..keel", "events.out.tfevents.1700000000.a1.a1.keel",
                           "events.out.tfevents.1x.keel", "events.out.tfevents.1234567890123456789.keel", "x.keel"})
    EXPECT_FALSE(EventFile::is_own(name, "a1")) << name;
}

}  // namespace
}  // namespace keel
