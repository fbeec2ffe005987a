#include "keel/record/tools/protobuf.h"

#include <bit>

namespace keel {
namespace {

constexpr int kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5;  // wire types

}  // namespace

void add_little_endian(std::string& bytes, uint64_t number, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(number >> (8 * i));
}

void ProtobufMessage::add_varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

void ProtobufMessage::add_tag(int field, int wire_type) { add_varint(static_cast<uint64_t>(field) << 3 | wire_type); }

ProtobufMessage& ProtobufMessage::add_int(int field, int64_t value) {
  add_tag(field, kVarint);
  add_varint(static_cast<uint64_t>(value));
  return *this;
}

ProtobufMessage& ProtobufMessage::add_double(int field, double value) {
  add_tag(field, kFixed64);
  add_little_endian(bytes_, std::bit_cast<uint64_t>(value), 8);
  return *this;
}

ProtobufMessage& ProtobufMessage::add_float(int field, float value) {
  add_tag(field, kFixed32);
  add_little_endian(bytes_, std::bit_cast<uint32_t>(value), 4);
  return *this;
}

ProtobufMessage& ProtobufMessage::add_string(int field, std::string_view value) {
  add_tag(field, kLengthDelimited);
  add_varint(value.size());
  bytes_ += value;
  return *this;
}

}  // namespace keel
