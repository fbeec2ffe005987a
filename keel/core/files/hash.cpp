#include "keel/core/files/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "keel/core/files/file.h"

namespace keel {
namespace {

// Fractional parts of the cube roots of the first 64 primes (FIPS 180-4, section 4.2.2).
constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t load_big_endian(const std::byte* bytes) {
  const auto at = [&](int i) { return std::to_integer<uint32_t>(bytes[i]); };
  return at(0) << 24 | at(1) << 16 | at(2) << 8 | at(3);
}

/// One round. Only d and h change; the caller renames the eight variables instead of moving them.
inline void round(uint32_t a, uint32_t b, uint32_t c, uint32_t& d, uint32_t e, uint32_t f, uint32_t g, uint32_t& h,
                  uint32_t constant_plus_word) {
  const uint32_t choice = g ^ (e & (f ^ g));
  const uint32_t majority = (a & b) | (c & (a | b));
  h += (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + choice + constant_plus_word;
  d += h;
  h += (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + majority;
}

// kCrcTables[k][b]: the remainder of byte b followed by k zero bytes, so that eight bytes take eight independent
// look-ups ("slicing by 8", Kounavis and Berry 2005).
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;
constexpr CrcTables make_crc_tables() {
  constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli's, bits reversed
  CrcTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ (remainder & 1 ? kPolynomial : 0);
    tables[0][byte] = remainder;
  }
  for (size_t zeros = 1; zeros < 8; ++zeros) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[zeros - 1][byte];
      tables[zeros][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}
constexpr CrcTables kCrcTables = make_crc_tables();

}  // namespace

void Sha256::compress(const std::byte* block) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) w[i] = load_big_endian(block + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t low = w[i - 15], high = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(low, 7) ^ std::rotr(low, 18) ^ (low >> 3)) + w[i - 7] +
           (std::rotr(high, 17) ^ std::rotr(high, 19) ^ (high >> 10));
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t i = 0; i < 64; i += 8) {
    const uint32_t *k = &kRoundConstants[i], *word = &w[i];
    round(a, b, c, d, e, f, g, h, k[0] + word[0]);
    round(h, a, b, c, d, e, f, g, k[1] + word[1]);
    round(g, h, a, b, c, d, e, f, k[2] + word[2]);
    round(f, g, h, a, b, c, d, e, k[3] + word[3]);
    round(e, f, g, h, a, b, c, d, k[4] + word[4]);
    round(d, e, f, g, h, a, b, c, k[5] + word[5]);
    round(c, d, e, f, g, h, a, b, k[6] + word[6]);
    round(b, c, d, e, f, g, h, a, k[7] + word[7]);
  }
  const std::array<uint32_t, 8> result = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += result[i];
}

void Sha256::update(std::span<const std::byte> bytes) {
  const size_t pending = length_ % 64;
  length_ += bytes.size();
  if (pending > 0) {
    const size_t taken = std::min(bytes.size(), 64 - pending);
    std::copy_n(bytes.begin(), taken, pending_.begin() + pending);
    bytes = bytes.subspan(taken);
    if (pending + taken < 64) return;
    compress(pending_.data());
  }
  for (; bytes.size() >= 64; bytes = bytes.subspan(64)) compress(bytes.data());
  std::copy(bytes.begin(), bytes.end(), pending_.begin());
}

std::string Sha256::hex() const {
  Sha256 last = *this;
  std::array<std::byte, 72> padding{std::byte{0x80}};
  const size_t zeros_end = length_ % 64 < 56 ? 56 - length_ % 64 : 120 - length_ % 64;
  for (size_t i = 0; i < 8; ++i) padding[zeros_end + i] = static_cast<std::byte>(length_ * 8 >> (56 - 8 * i));
  last.update(std::span(padding).first(zeros_end + 8));

  std::string text;
  for (const uint32_t word : last.state_) {
    for (int shift = 28; shift >= 0; shift -= 4) text.push_back("0123456789abcdef"[word >> shift & 0xf]);
  }
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string sha256_hex(std::string_view bytes) { return sha256_hex(std::as_bytes(std::span(bytes))); }

std::string sha256_of_file(const std::filesystem::path& path) {
  Sha256 hash;
  InputFile::open(path).for_each_piece([&](std::span<const std::byte> piece) { hash.update(piece); });
  return hash.hex();
}

namespace {

uint32_t crc_by_tables(uint32_t crc, std::span<const std::byte> bytes) {
  static_assert(std::endian::native == std::endian::little, "the eight-byte step reads words low byte first");
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    word ^= crc;
    const auto look_up = [word](size_t i) { return kCrcTables[7 - i][word >> (8 * i) & 0xff]; };
    crc = look_up(0) ^ look_up(1) ^ look_up(2) ^ look_up(3) ^ look_up(4) ^ look_up(5) ^ look_up(6) ^ look_up(7);
  }
  for (const std::byte byte : bytes) crc = (crc >> 8) ^ kCrcTables[0][(crc ^ std::to_integer<uint32_t>(byte)) & 0xff];
  return crc;
}

#ifdef __x86_64__
/// Uses the processor's CRC instruction, which is several times as fast. Loading a checkpoint checks all its bytes.
__attribute__((target("sse4.2"))) uint32_t crc_by_instruction(uint32_t crc, std::span<const std::byte> bytes) {
  uint64_t state = crc;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    state = __builtin_ia32_crc32di(state, word);
  }
  return crc_by_tables(static_cast<uint32_t>(state), bytes);
}
#endif

}  // namespace

void Crc32c::update(std::span<const std::byte> bytes) {
#ifdef __x86_64__
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) {
    state_ = crc_by_instruction(state_, bytes);
    return;
  }
#endif
  state_ = crc_by_tables(state_, bytes);
}

uint32_t crc32c(std::span<const std::byte> bytes) {
  Crc32c crc;
  crc.update(bytes);
  return crc.value();
}

uint32_t crc32c(std::string_view bytes) { return crc32c(std::as_bytes(std::span(bytes))); }

}  // namespace keel
