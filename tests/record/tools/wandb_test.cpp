#include "keel/record/tools/wandb.h"

#include <gtest/gtest.h>

#include <cstring>

namespace keel {
namespace {

struct Part {
  uint32_t checksum = 0;
  uint16_t length = 0;
  char kind = 0;
  bool operator==(const Part&) const = default;
};

Part part_at(const std::string& bytes, size_t at) {
  Part part;
  std::memcpy(&part.checksum, bytes.data() + at, 4);
  std::memcpy(&part.length, bytes.data() + at + 4, 2);
  part.kind = bytes[at + 6];
  return part;
}

std::string bytes_of_length(size_t length) {
  std::string bytes;
  for (size_t i = 0; i < length; ++i) bytes += static_cast<char>(i * 7 % 251);
  return bytes;
}

// Checksums from Python's zlib.crc32 over the kind and the part.
TEST(WandbLog, ARecordThatFitsIsOnePart) {
  WandbLog log;
  log.add("abc");
  EXPECT_EQ(log.bytes(), std::string(":W&B\xe1\xbe\x00\xa9\x20\x9d\x53\x03\x00\x01"
                                     "abc",
                                     17));
}

TEST(WandbLog, ALongRecordIsCutAtTheEndsOfBlocks) {
  WandbLog log;
  log.add(bytes_of_length(70000));
  EXPECT_EQ(part_at(log.bytes(), 7), (Part{0x24c15ac9, 32754, 2}));
  EXPECT_EQ(part_at(log.bytes(), 32768), (Part{0x43c39afc, 32761, 3}));
  EXPECT_EQ(part_at(log.bytes(), 65536), (Part{0x5f100c22, 4485, 4}));
  EXPECT_EQ(log.bytes().size(), 65536u + 7 + 4485);
}

TEST(WandbLog, TheRestOfABlockThatHasNoRoomForAPartIsZero) {
  for (size_t left = 0; left < 9; ++left) {
    WandbLog log;
    log.add(bytes_of_length(32768 - 7 - 7 - left));
    log.add("next");
    const size_t at = left < 7 ? 32768 : 32768 - left;
    EXPECT_EQ(log.bytes().substr(32768 - left, at - (32768 - left)), std::string(at - (32768 - left), '\0')) << left;
    const size_t in_block = left < 7 ? 4 : left - 7;  // bytes of the record that have room
    EXPECT_EQ(part_at(log.bytes(), at).length, in_block) << left;
    EXPECT_EQ(part_at(log.bytes(), at).kind, in_block == 4 ? 1 : 2) << left;
  }
}

TEST(WandbFolder, IsNamedByItsBeginningAndItsRun) {
  ExportedRun run;
  run.id = "0123456789abcdef";
  run.steps = {{.phase = "rl", .step = 1, .time = 1700000000, .values = {{"time/step", 5}}}};
  EXPECT_EQ(wandb_folder(run), "offline-run-20231114_221315-0123456789abcdef");  // five seconds before 22:13:20 UTC
  EXPECT_EQ(wandb_file(run), "run-0123456789abcdef.wandb");
}

}  // namespace
}  // namespace keel
