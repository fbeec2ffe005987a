#include "keel/record/tools/protobuf.h"

#include <bit>

namespace keel {
namespace {

constexpr int kVarint = 0, kEightBytes = 1, kLengthAndBytes = 2, kFourBytes = 5;

}  // namespace

void add_little_endian(std::string& bytes, uint64_t number, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(number >> (8 * i));
}

void ProtobufMessage::add_varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

void ProtobufMessage::begin(int field, int kind) { add_varint(static_cast<uint64_t>(field) << 3 | kind); }

ProtobufMessage& ProtobufMessage::integer(int field, int64_t value) {
  begin(field, kVarint);
  add_varint(static_cast<uint64_t>(value));
  return *this;
}

ProtobufMessage& ProtobufMessage::number(int field, double value) {
  begin(field, kEightBytes);
  add_little_endian(bytes_, std::bit_cast<uint64_t>(value), 8);
  return *this;
}

ProtobufMessage& ProtobufMessage::small_number(int field, float value) {
  begin(field, kFourBytes);
  add_little_endian(bytes_, std::bit_cast<uint32_t>(value), 4);
  return *this;
}

ProtobufMessage& ProtobufMessage::text(int field, std::string_view value) {
  begin(field, kLengthAndBytes);
  add_varint(value.size());
  bytes_ += value;
  return *this;
}

}  // namespace keel
