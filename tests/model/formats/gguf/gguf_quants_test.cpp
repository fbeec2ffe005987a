#include "keel/model/formats/gguf/gguf_quants.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/gguf_bytes.h"

namespace keel {
namespace {

using gguf_bytes::u32;

std::vector<float> read(const char* name, const std::string& bytes) {
  for (uint32_t id = 0; id < 64; ++id) {
    const GgufFormat* format = find_gguf_format(id);
    if (format == nullptr || format->name != name) continue;
    EXPECT_EQ(bytes.size() % format->block_bytes, 0u);
    const size_t blocks = bytes.size() / format->block_bytes;
    std::vector<float> values(blocks * format->block_elements);
    format->to_float(reinterpret_cast<const std::byte*>(bytes.data()), blocks, values.data());
    return values;
  }
  ADD_FAILURE() << name << " is not a format";
  return {};
}

const std::string kOne("\x00\x3c", 2), kHalf("\x00\x38", 2), kMinusTwo("\x00\xc0", 2);  // in IEEE half precision

std::string repeated(int byte, int times) { return std::string(static_cast<size_t>(times), static_cast<char>(byte)); }

/// 16 bytes whose low nibbles go 0, 1, ..., 15 and whose high nibbles go 15, 14, ..., 0.
std::string nibbles() {
  std::string bytes;
  for (int j = 0; j < 16; ++j) bytes.push_back(static_cast<char>(j | (15 - j) << 4));
  return bytes;
}

// IEEE 754: smallest subnormal, largest subnormal, smallest normal, largest, infinities, minus zero.
TEST(GgufQuants, HalfPrecisionIsReadFromItsBits) {
  const auto values =
      read("F16", std::string("\x01\x00\xff\x03\x00\x04\xff\x7b\x00\x7c\x00\xfc\x00\x80\x00\xbe\x01\x7c", 18));
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> wanted = {0x1p-24f, 0x1.ff8p-15f, 0x1p-14f, 65504.0f, infinity, -infinity, -0.0f, -1.5f};
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(values[i], wanted[i]) << i;
  EXPECT_TRUE(std::signbit(values[6]));
  EXPECT_TRUE(std::isnan(values[8]));
}

TEST(GgufQuants, OtherFloatFormatsAreReadFromTheirBits) {
  EXPECT_EQ(read("F32", std::string("\x00\x00\xc0\x3f", 4)), std::vector<float>{1.5f});
  EXPECT_EQ(read("BF16", std::string("\xc0\x3f\x80\xff", 4)),
            (std::vector<float>{1.5f, -std::numeric_limits<float>::infinity()}));
}

std::string written(const char* name, const std::vector<float>& values) {
  const GgufFormat* format = find_gguf_format(name);
  const size_t blocks = values.size() / format->block_elements;
  std::string bytes(blocks * format->block_bytes, '?');
  format->from_float(values.data(), blocks, reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}

// IEEE 754: to nearest, ties to even; below half of the smallest subnormal is 0, from 65520 on infinity.
TEST(GgufQuants, FloatFormatsAreRoundedToNearestEven) {
  const std::vector<float> values = {1,        1 + 0x1p-11f, 1 + 0x3p-11f, 65504,        65519.996f, 65520,
                                     0x1p-24f, 0x1p-25f,     0x3p-25f,     0x1.ffcp-15f, -0.0f,      -1e30f};
  const std::vector<uint16_t> wanted = {0x3c00, 0x3c00, 0x3c02, 0x7bff, 0x7bff, 0x7c00,
                                        0x0001, 0x0000, 0x0002, 0x0400, 0x8000, 0xfc00};
  const std::string bytes = written("F16", values);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const unsigned low = static_cast<unsigned char>(bytes[2 * i]), high = static_cast<unsigned char>(bytes[2 * i + 1]);
    EXPECT_EQ(high << 8 | low, wanted[i]) << values[i];
  }
  EXPECT_EQ(written("BF16", {1.5f, 1 + 0x1p-8f, 1 + 0x3p-8f}), std::string("\xc0\x3f\x80\x3f\x82\x3f", 6));
  EXPECT_EQ(written("F32", {1.5f}), std::string("\x00\x00\xc0\x3f", 4));
}

TEST(GgufQuants, AQ80BlockScalesItsMaximumTo127AndRoundsTiesAwayFromZero) {
  std::vector<float> values(64, 0.0f);
  values[0] = -127, values[1] = 0.5f, values[2] = -0.5f, values[3] = 2.5f, values[4] = 2.49f;
  const std::string bytes = written("Q8_0", values);
  EXPECT_EQ(bytes.substr(0, 8), kOne + std::string("\x81\x01\xff\x03\x02\x00", 6));
  EXPECT_EQ(bytes.substr(34), repeated(0, 34));
}

TEST(GgufQuants, BlocksOf32MatchAHandComputation) {
  const auto q8 = read("Q8_0", kHalf + repeated(0x80, 1) + repeated(0x7f, 1) + repeated(0xff, 30));
  EXPECT_EQ(q8[0], -64.0f);
  EXPECT_EQ(q8[1], 63.5f);
  EXPECT_EQ(q8[31], -0.5f);

  const auto q4_0 = read("Q4_0", kHalf + nibbles());
  const auto q4_1 = read("Q4_1", kHalf + kMinusTwo + nibbles());
  // The fifth bits of the first 16 elements are set.
  const auto q5_0 = read("Q5_0", kHalf + u32(0x0000ffff) + nibbles());
  const auto q5_1 = read("Q5_1", kHalf + kMinusTwo + u32(0x0000ffff) + nibbles());
  for (int j = 0; j < 16; ++j) {
    const auto low = static_cast<size_t>(j), high = low + 16;
    EXPECT_EQ(q4_0[low], 0.5f * static_cast<float>(j - 8));
    EXPECT_EQ(q4_0[high], 0.5f * static_cast<float>(7 - j));
    EXPECT_EQ(q4_1[low], 0.5f * static_cast<float>(j) - 2);
    EXPECT_EQ(q4_1[high], 0.5f * static_cast<float>(15 - j) - 2);
    EXPECT_EQ(q5_0[low], 0.5f * static_cast<float>(j));
    EXPECT_EQ(q5_0[high], 0.5f * static_cast<float>(-1 - j));
    EXPECT_EQ(q5_1[low], 0.5f * static_cast<float>(j + 16) - 2);
    EXPECT_EQ(q5_1[high], 0.5f * static_cast<float>(15 - j) - 2);
  }
}

TEST(GgufQuants, ASecondBlockFollowsTheFirst) {
  const auto values = read("Q8_0", kHalf + repeated(2, 32) + kOne + repeated(3, 32));
  EXPECT_EQ(values[31], 1.0f);
  EXPECT_EQ(values[32], 3.0f);
  EXPECT_EQ(values.size(), 64u);
}

// Scales 1, 2, 3, 4 and minima 5, 6, 7, 8 for groups 0 to 3. Groups 4 to 7: low bits 1 and 2 from the last four bytes;
// group 4 also has the top bits 3 (of byte 0) and 1 (of byte 4), so that its scale is 49 and its minimum 18.
TEST(GgufQuants, Q4KMatchesAHandComputation) {
  const std::string packed = std::string("\xc1\x02\x03\x04\x45\x06\x07\x08", 8) + repeated(0x21, 4);
  const auto values = read("Q4_K", kOne + kHalf + packed + repeated(0xa3, 128));  // low nibbles 3, high nibbles 10
  const float wanted[8] = {3 * 1 - 2.5f, 10 * 2 - 3, 3 * 3 - 3.5f, 10 * 4 - 4,
                           3 * 49 - 9,   10 * 1 - 1, 3 * 1 - 1,    10 * 1 - 1};
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(values[i], wanted[i / 32]) << i;
}

// Nibbles 2 (low) and 5 (high), bit pairs 0, 1, 2, 3 from low to high: quants 2, 18, 37, 53, minus 32; scales 2, and -1
// for the last 16 elements.
TEST(GgufQuants, Q6KMatchesAHandComputation) {
  const auto values =
      read("Q6_K", repeated(0x52, 128) + repeated(0xe4, 64) + repeated(2, 15) + repeated(0xff, 1) + kOne);
  const float wanted[4] = {-60, -28, 10, 42};
  for (size_t i = 0; i < 240; ++i) EXPECT_EQ(values[i], wanted[i / 32 % 4]) << i;
  for (size_t i = 240; i < 256; ++i) EXPECT_EQ(values[i], -21.0f) << i;
}

TEST(GgufQuants, FormatsHaveTheirNames) {
  EXPECT_EQ(find_gguf_format(4), nullptr);
  EXPECT_EQ(find_gguf_format(99), nullptr);
  EXPECT_EQ(gguf_format_name(10), "Q2_K");
  EXPECT_EQ(gguf_format_name(14), "Q6_K");
  EXPECT_EQ(gguf_format_name(99), "type 99");
}

}  // namespace
}  // namespace keel
