#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace keel {

/// SHA-256 (FIPS 180-4) of bytes that come in pieces.
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  void update(std::string_view bytes) { update(std::as_bytes(std::span(bytes))); }
  /// The digest of everything so far, as 64 hexadecimal digits; more may be added afterwards.
  std::string hex() const;

 private:
  void compress(const std::byte* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};  // the bytes of an incomplete block: the first length_ % 64
  uint64_t length_ = 0;
};

/// The SHA-256 of `bytes` as 64 hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view bytes);

/// The SHA-256 of a file's content, read in pieces.
std::string sha256_of_file(const std::filesystem::path& path);

/// CRC-32C (Castagnoli, as in RFC 3720) of bytes that come in pieces: finds accidents, not attacks.
class Crc32c {
 public:
  void update(std::span<const std::byte> bytes);
  void update(std::string_view bytes) { update(std::as_bytes(std::span(bytes))); }
  /// The checksum of everything so far; more may be added afterwards.
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = ~0u;
};

/// The CRC-32C of `bytes`.
uint32_t crc32c(std::span<const std::byte> bytes);
uint32_t crc32c(std::string_view bytes);

}  // namespace keel
