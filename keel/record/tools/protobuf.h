#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace keel {

/// Adds the lowest `count` bytes of a number, the lowest first.
void add_little_endian(std::string& bytes, uint64_t number, int count);

/// A protobuf message as it is written, field after field (protobuf.dev/programming-guides/encoding). Field numbers are
/// those of the .proto file of whoever reads it.
class ProtobufMessage {
 public:
  ProtobufMessage& integer(int field, int64_t value);
  ProtobufMessage& number(int field, double value);
  ProtobufMessage& small_number(int field, float value);
  ProtobufMessage& text(int field, std::string_view value);
  ProtobufMessage& message(int field, const ProtobufMessage& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void begin(int field, int kind);
  void add_varint(uint64_t value);

  std::string bytes_;
};

}  // namespace keel
