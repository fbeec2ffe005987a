#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace keel {

/// Appends the lowest `count` bytes of a number in little-endian order.
void add_little_endian(std::string& bytes, uint64_t number, int count);

/// Encodes a protobuf message (protobuf.dev/programming-guides/encoding). The field numbers come from the .proto file
/// of the reader.
class ProtobufMessage {
 public:
  ProtobufMessage& add_int(int field, int64_t value);
  ProtobufMessage& add_double(int field, double value);
  ProtobufMessage& add_float(int field, float value);
  ProtobufMessage& add_string(int field, std::string_view value);
  ProtobufMessage& add_message(int field, const ProtobufMessage& value) { return add_string(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void add_tag(int field, int wire_type);
  void add_varint(uint64_t value);

  std::string bytes_;
};

}  // namespace keel
