#include "keel/core/files/hash.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <random>

#include "keel/core/error.h"

namespace keel {
namespace {

// NIST's examples for FIPS 180-4.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                       "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// The test vectors of RFC 3720, appendix B.4, and the usual check value of "123456789".
TEST(Crc32c, GivesThePublishedChecksums) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) {
    rising.push_back(static_cast<char>(i));
    falling.push_back(static_cast<char>(31 - i));
  }
  EXPECT_EQ(crc32c(rising), 0x46dd794eu);
  EXPECT_EQ(crc32c(falling), 0x113fdb5cu);
}

std::string random_bytes(size_t size, std::mt19937& generator) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(generator());
  return bytes;
}

TEST(Hashes, DoNotDependOnTheSizesOfTheUpdates) {
  std::mt19937 generator(1);
  for (int trial = 0; trial < 300; ++trial) {
    const std::string bytes = random_bytes(generator() % 500, generator);
    Sha256 sha;
    Crc32c crc;
    for (size_t done = 0; done < bytes.size();) {
      const std::string_view piece = std::string_view(bytes).substr(done, generator() % 150);
      sha.update(piece);
      crc.update(piece);
      done += piece.size();
    }
    ASSERT_EQ(sha.hex(), sha256_hex(bytes)) << bytes.size();
    ASSERT_EQ(crc.value(), crc32c(bytes)) << bytes.size();
  }
}

TEST(Hashes, CanBeReadBetweenUpdates) {
  Sha256 sha;
  sha.update("ab");
  EXPECT_EQ(sha.hex(), sha256_hex("ab"));
  sha.update("c");
  EXPECT_EQ(sha.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Crc32c, ChangesWithEveryBit) {
  std::mt19937 generator(2);
  std::string bytes = random_bytes(100, generator);
  const uint32_t original = crc32c(bytes);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    ASSERT_NE(crc32c(bytes), original) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
}

TEST(Sha256OfFile, ReadsFilesLongerThanItsBuffer) {
  const std::string path = testing::TempDir() + "keel_hash_test_" + std::to_string(::getpid());
  std::ofstream(path) << std::string(1'000'000, 'a');
  EXPECT_EQ(sha256_of_file(path), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  std::mt19937 generator(3);
  const std::string bytes = random_bytes((5 << 20) / 2 + 17, generator);
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(sha256_of_file(path), sha256_hex(bytes));
  std::ofstream(path, std::ios::binary) << "";
  EXPECT_EQ(sha256_of_file(path), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  std::remove(path.c_str());
}

TEST(Sha256OfFile, NamesAMissingFile) {
  try {
    sha256_of_file("/nowhere/weights.bin");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(std::string(error.what()), testing::HasSubstr("/nowhere/weights.bin"));
  }
}

}  // namespace
}  // namespace keel
