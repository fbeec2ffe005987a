#include "keel/model/formats/gguf/gguf_quants.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace keel {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files are little-endian");

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Converts IEEE half precision. Subnormals are converted from integers, so that flush-to-zero does not affect them.
float read_half(const std::byte* from) {
  const uint32_t bits = load<uint16_t>(from), sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude < 0x0400) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  const uint32_t exponent_shift = magnitude < 0x7c00 ? 112u << 23 : 224u << 23;  // infinities and NaNs go to 255
  return std::bit_cast<float>(sign | ((magnitude << 13) + exponent_shift));
}

template <class T>
void store(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}

/// Rounds to the nearest half, ties to even.
uint16_t half_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);   // NaN
  if (magnitude >= 0x47800000) return static_cast<uint16_t>(sign | 0x7c00);  // infinity
  if (magnitude < 0x38800000) {  // adding 0.5 rounds to the precision of a subnormal half
    return static_cast<uint16_t>(sign |
                                 (std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u));
  }
  return static_cast<uint16_t>(sign | ((magnitude + 0xfff + (magnitude >> 13 & 1u) - (112u << 23)) >> 13));
}

int low_nibble(std::byte byte) { return std::to_integer<int>(byte & std::byte{15}); }
int high_nibble(std::byte byte) { return std::to_integer<int>(byte >> 4); }
int byte_at(const std::byte* from) { return std::to_integer<int>(*from); }

void from_f32(const std::byte* from, size_t blocks, float* to) { std::memcpy(to, from, blocks * sizeof(float)); }

void from_f16(const std::byte* from, size_t blocks, float* to) {
  for (size_t i = 0; i < blocks; ++i) to[i] = read_half(from + 2 * i);
}

void from_bf16(const std::byte* from, size_t blocks, float* to) {
  for (size_t i = 0; i < blocks; ++i) {
    to[i] = std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(from + 2 * i)) << 16);
  }
}

void to_f32(const float* from, size_t blocks, std::byte* to) { std::memcpy(to, from, blocks * sizeof(float)); }

void to_f16(const float* from, size_t blocks, std::byte* to) {
  for (size_t i = 0; i < blocks; ++i) store(half_bits(from[i]), to + 2 * i);
}

void to_bf16(const float* from, size_t blocks, std::byte* to) {
  for (size_t i = 0; i < blocks; ++i) {
    const auto bits = std::bit_cast<uint32_t>(from[i]);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    store(static_cast<uint16_t>(is_nan ? bits >> 16 | 64 : (bits + 0x7fff + (bits >> 16 & 1u)) >> 16), to + 2 * i);
  }
}

// Blocks of 32. A byte of nibbles holds element j low and element j + 16 high.

void from_q8_0(const std::byte* from, size_t blocks, float* to) {
  for (size_t b = 0; b < blocks; ++b, from += 34, to += 32) {
    const float scale = read_half(from);
    for (int j = 0; j < 32; ++j) to[j] = scale * static_cast<float>(load<int8_t>(from + 2 + j));
  }
}

/// The element with the largest magnitude becomes 127 or -127; ties are rounded away from zero. As in ggml, the
/// integers are computed with the scale before it is rounded to half precision.
void to_q8_0(const float* from, size_t blocks, std::byte* to) {
  for (size_t b = 0; b < blocks; ++b, from += 32, to += 34) {
    float max_magnitude = 0;
    for (int j = 0; j < 32; ++j) max_magnitude = std::max(max_magnitude, std::abs(from[j]));
    const float scale = max_magnitude / 127, inverse = 1 / scale;
    const float factor = std::isfinite(inverse) ? inverse : 0;
    store(half_bits(scale), to);
    for (int j = 0; j < 32; ++j) store(static_cast<int8_t>(std::round(from[j] * factor)), to + 2 + j);
  }
}

void from_q4_0(const std::byte* from, size_t blocks, float* to) {
  for (size_t b = 0; b < blocks; ++b, from += 18, to += 32) {
    const float scale = read_half(from);
    for (int j = 0; j < 16; ++j) {
      to[j] = scale * static_cast<float>(low_nibble(from[2 + j]) - 8);
      to[j + 16] = scale * static_cast<float>(high_nibble(from[2 + j]) - 8);
    }
  }
}

void from_q4_1(const std::byte* from, size_t blocks, float* to) {
  for (size_t b = 0; b < blocks; ++b, from += 20, to += 32) {
    const float scale = read_half(from), minimum = read_half(from + 2);
    for (int j = 0; j < 16; ++j) {
      to[j] = scale * static_cast<float>(low_nibble(from[4 + j])) + minimum;
      to[j + 16] = scale * static_cast<float>(high_nibble(from[4 + j])) + minimum;
    }
  }
}

/// The fifth bit of element j is bit j of a 32-bit word.
int with_fifth_bit(int nibble, uint32_t fifth, int j) { return nibble | static_cast<int>((fifth >> j & 1u) << 4); }

void from_q5_0(const std::byte* from, size_t blocks, float* to) {
  for (size_t b = 0; b < blocks; ++b, from += 22, to += 32) {
    const float scale = read_half(from);
    const auto fifth = load<uint32_t>(from + 2);
    for (int j = 0; j < 16; ++j) {
      to[j] = scale * static_cast<float>(with_fifth_bit(low_nibble(from[6 + j]), fifth, j) - 16);
      to[j + 16] = scale * static_cast<float>(with_fifth_bit(high_nibble(from[6 + j]), fifth, j + 16) - 16);
    }
  }
}

void from_q5_1(const std::byte* from, size_t blocks, float* to) {
  for (size_t b = 0; b < blocks; ++b, from += 24, to += 32) {
    const float scale = read_half(from), minimum = read_half(from + 2);
    const auto fifth = load<uint32_t>(from + 4);
    for (int j = 0; j < 16; ++j) {
      to[j] = scale * static_cast<float>(with_fifth_bit(low_nibble(from[8 + j]), fifth, j)) + minimum;
      to[j + 16] = scale * static_cast<float>(with_fifth_bit(high_nibble(from[8 + j]), fifth, j + 16)) + minimum;
    }
  }
}

// Super-blocks of 256.

/// 16 groups of 16: 16 bytes with a scale (low nibble) and a minimum (high nibble), 64 bytes of quants, two
/// half-precision floats. Each half of the block stores eight groups in 32 bytes: two groups for each bit pair, from
/// low to high.
void from_q2_k(const std::byte* from, size_t blocks, float* to) {
  for (size_t b = 0; b < blocks; ++b, from += 84) {
    const float scale_of_scales = read_half(from + 80), scale_of_minima = read_half(from + 82);
    for (int group = 0; group < 16; ++group, to += 16) {
      const std::byte* quants = from + 16 + group / 8 * 32 + group % 2 * 16;
      const float step = scale_of_scales * static_cast<float>(low_nibble(from[group]));
      const float offset = scale_of_minima * static_cast<float>(high_nibble(from[group]));
      for (int j = 0; j < 16; ++j)
        to[j] = step * static_cast<float>(byte_at(quants + j) >> group % 8 / 2 * 2 & 3) - offset;
    }
  }
}

/// 16 groups of 16: 32 bytes of third bits, 64 bytes of bit pairs as in Q2_K, 12 bytes of 6-bit scales with offset 32,
/// one half-precision float. A quant whose third bit is 0 is reduced by 4. The low four bits of the scales are nibbles
/// of the first eight bytes (low nibbles first), and the high two bits are in the last four bytes.
void from_q3_k(const std::byte* from, size_t blocks, float* to) {
  for (size_t b = 0; b < blocks; ++b, from += 110) {
    const float scale_of_scales = read_half(from + 108);
    const std::byte* scales = from + 96;
    for (int group = 0; group < 16; ++group, to += 16) {
      const int low_bits = group < 8 ? low_nibble(scales[group]) : high_nibble(scales[group - 8]);
      const int high_bits = byte_at(scales + 8 + group % 4) >> group / 4 * 2 & 3;
      const float step = scale_of_scales * static_cast<float>((low_bits | high_bits << 4) - 32);
      const std::byte* quants = from + 32 + group / 8 * 32 + group % 2 * 16;
      const std::byte* third = from + group % 2 * 16;
      for (int j = 0; j < 16; ++j) {
        const int reduction = byte_at(third + j) >> group / 2 & 1 ? 0 : 4;
        to[j] = step * static_cast<float>((byte_at(quants + j) >> group % 8 / 2 * 2 & 3) - reduction);
      }
    }
  }
}

struct ScaleAndMinimum {
  int scale, minimum;
};

/// Unpacks the 6-bit scale and minimum of one of eight groups from twelve bytes. Groups 0 to 3 are in the low six bits
/// of bytes 0-3 (scales) and 4-7 (minima). Groups 4 to 7 have their low four bits in the nibbles of bytes 8-11, and
/// their high two bits in the top bits of bytes 0-3 and 4-7.
ScaleAndMinimum unpack_scale(const std::byte* packed, int group) {
  if (group < 4) return {byte_at(packed + group) & 63, byte_at(packed + 4 + group) & 63};
  return {low_nibble(packed[4 + group]) | (byte_at(packed + group - 4) >> 6) << 4,
          high_nibble(packed[4 + group]) | (byte_at(packed + group) >> 6) << 4};
}

/// Eight groups of 32: two half-precision floats, the scales and minima, for 5-bit formats 32 bytes of fifth bits, and
/// 128 bytes of nibbles. Two groups share 32 bytes: the low and the high nibbles.
template <bool has_fifth_bit>
void from_nibbles_k(const std::byte* from, size_t blocks, float* to) {
  constexpr int kNibbles = has_fifth_bit ? 48 : 16;
  for (size_t b = 0; b < blocks; ++b, from += kNibbles + 128) {
    const float scale_of_scales = read_half(from), scale_of_minima = read_half(from + 2);
    for (int group = 0; group < 8; ++group, to += 32) {
      const auto [scale, minimum] = unpack_scale(from + 4, group);
      const float step = scale_of_scales * static_cast<float>(scale);
      const float offset = scale_of_minima * static_cast<float>(minimum);
      const std::byte* quants = from + kNibbles + group / 2 * 32;
      for (int j = 0; j < 32; ++j) {
        int quant = group % 2 == 0 ? low_nibble(quants[j]) : high_nibble(quants[j]);
        if (has_fifth_bit) quant |= (byte_at(from + 16 + j) >> group & 1) << 4;
        to[j] = step * static_cast<float>(quant) - offset;
      }
    }
  }
}

/// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales (one per 16 elements), one half-precision
/// float. Each half of the block stores four groups of 32: 64 bytes of nibbles (low, low, high, high) and 32 bytes of
/// bit pairs (from low to high).
void from_q6_k(const std::byte* from, size_t blocks, float* to) {
  for (size_t b = 0; b < blocks; ++b, from += 210) {
    const float scale_of_scales = read_half(from + 208);
    for (int group = 0; group < 8; ++group, to += 32) {
      const int side = group / 4, index = group % 4;
      const std::byte* low = from + side * 64 + index % 2 * 32;
      const std::byte* high = from + 128 + side * 32;
      for (int j = 0; j < 32; ++j) {
        const int low_bits = index < 2 ? low_nibble(low[j]) : high_nibble(low[j]);
        const int high_bits = byte_at(high + j) >> (2 * index) & 3;
        const float step = scale_of_scales * static_cast<float>(load<int8_t>(from + 192 + group * 2 + j / 16));
        to[j] = step * static_cast<float>((low_bits | high_bits << 4) - 32);
      }
    }
  }
}

constexpr float kMaxFloat = std::numeric_limits<float>::max();
constexpr std::array<GgufFormat, 13> kFormats = {{{0, "F32", 1, 4, from_f32, to_f32, kMaxFloat},
                                                  {1, "F16", 1, 2, from_f16, to_f16, 65504},
                                                  {30, "BF16", 1, 2, from_bf16, to_bf16, 0x1.fep127f},
                                                  {8, "Q8_0", 32, 34, from_q8_0, to_q8_0, 65504 * 127},
                                                  {2, "Q4_0", 32, 18, from_q4_0},
                                                  {3, "Q4_1", 32, 20, from_q4_1},
                                                  {6, "Q5_0", 32, 22, from_q5_0},
                                                  {7, "Q5_1", 32, 24, from_q5_1},
                                                  {10, "Q2_K", 256, 84, from_q2_k},
                                                  {11, "Q3_K", 256, 110, from_q3_k},
                                                  {12, "Q4_K", 256, 144, from_nibbles_k<false>},
                                                  {13, "Q5_K", 256, 176, from_nibbles_k<true>},
                                                  {14, "Q6_K", 256, 210, from_q6_k}}};

/// Named in errors only.
struct UnsupportedFormat {
  uint32_t id;
  std::string_view name;
};
constexpr std::array<UnsupportedFormat, 20> kUnsupported = {
    {{9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"},
     {21, "IQ3_S"}, {22, "IQ2_S"}, {23, "IQ4_XS"},  {24, "I8"},     {25, "I16"},     {26, "I32"},   {27, "I64"},
     {28, "F64"},   {29, "IQ1_M"}, {34, "TQ1_0"},   {35, "TQ2_0"},  {39, "MXFP4"},   {40, "NVFP4"}}};

}  // namespace

const GgufFormat* find_gguf_format(uint32_t id) {
  const auto* found = std::find_if(kFormats.begin(), kFormats.end(), [&](const GgufFormat& f) { return f.id == id; });
  return found != kFormats.end() ? found : nullptr;
}

const GgufFormat* find_gguf_format(std::string_view name) {
  const auto* found =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const GgufFormat& f) { return f.name == name; });
  return found != kFormats.end() ? found : nullptr;
}

std::string gguf_format_name(uint32_t id) {
  if (const GgufFormat* format = find_gguf_format(id)) return std::string(format->name);
  const auto* unsupported =
      std::find_if(kUnsupported.begin(), kUnsupported.end(), [&](const UnsupportedFormat& f) { return f.id == id; });
  return unsupported != kUnsupported.end() ? std::string(unsupported->name) : "type " + std::to_string(id);
}

std::string known_gguf_formats() {
  std::string list;
  for (const GgufFormat& format : kFormats) list.append(list.empty() ? "" : " ").append(format.name);
  return list;
}

}  // namespace keel
