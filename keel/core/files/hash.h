#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace keel {

/// Incremental SHA-256 (FIPS 180-4).
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  void update(std::string_view bytes) { update(std::as_bytes(std::span(bytes))); }
  /// Returns the digest of all bytes so far as 64 hexadecimal digits. update() may be called afterwards.
  std::string hex() const;

 private:
  void compress(const std::byte* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};  // the first length_ % 64 bytes are an incomplete block
  uint64_t length_ = 0;
};

/// The SHA-256 of `bytes` as 64 hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view bytes);

/// The SHA-256 of a file's content, read in pieces.
std::string sha256_of_file(const std::filesystem::path& path);

/// Incremental CRC-32C (Castagnoli, as in RFC 3720). It detects accidental changes, not attacks.
class Crc32c {
 public:
  void update(std::span<const std::byte> bytes);
  void update(std::string_view bytes) { update(std::as_bytes(std::span(bytes))); }
  /// Returns the checksum of all bytes so far. update() may be called afterwards.
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = ~0u;
};

uint32_t crc32c(std::span<const std::byte> bytes);
uint32_t crc32c(std::string_view bytes);

}  // namespace keel
