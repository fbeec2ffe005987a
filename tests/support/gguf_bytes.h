#pragma once

// Builds GGUF files byte by byte from the format specification, so that tests can make any single error.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace keel::gguf_bytes {

template <class T>
std::string number(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
inline std::string u32(uint32_t value) { return number(value); }
inline std::string u64(uint64_t value) { return number(value); }
inline std::string text(const std::string& value) { return u64(value.size()) + value; }

/// A key with its value's type number and bytes.
inline std::string key(const std::string& name, uint32_t type, const std::string& value) {
  return text(name) + u32(type) + value;
}
inline std::string text_key(const std::string& name, const std::string& value) { return key(name, 8, text(value)); }
inline std::string u32_key(const std::string& name, uint32_t value) { return key(name, 4, u32(value)); }
inline std::string f32_key(const std::string& name, float value) { return key(name, 6, number(value)); }
inline std::string bool_key(const std::string& name, bool value) { return key(name, 7, number(uint8_t{value})); }
inline std::string texts_key(const std::string& name, const std::vector<std::string>& values) {
  std::string bytes = u32(8) + u64(values.size());
  for (const std::string& value : values) bytes += text(value);
  return key(name, 9, bytes);
}
template <class T>
std::string list_key(const std::string& name, uint32_t type, const std::vector<T>& values) {
  std::string bytes = u32(type) + u64(values.size());
  for (const T value : values) bytes += number(value);
  return key(name, 9, bytes);
}

/// The header of a tensor. Dimensions are in the file's order, with the row length first.
inline std::string tensor(const std::string& name, const std::vector<uint64_t>& dimensions, uint32_t type,
                          uint64_t offset) {
  std::string bytes = text(name) + u32(static_cast<uint32_t>(dimensions.size()));
  for (const uint64_t size : dimensions) bytes += u64(size);
  return bytes + u32(type) + u64(offset);
}

struct File {
  std::vector<std::string> keys, tensors;
  std::string data;
  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t alignment = 32;

  std::string bytes() const { return bytes(tensors.size(), keys.size()); }
  std::string bytes(uint64_t tensor_count, uint64_t key_count) const {
    std::string all = magic + u32(version) + u64(tensor_count) + u64(key_count);
    for (const std::string& each : keys) all += each;
    for (const std::string& each : tensors) all += each;
    all.resize((all.size() + alignment - 1) / alignment * alignment, '\0');
    return all + data;
  }

  /// Adds a float32 tensor and its data.
  void add(const std::string& name, const std::vector<uint64_t>& dimensions, const std::vector<float>& values) {
    data.resize((data.size() + alignment - 1) / alignment * alignment, '\0');
    tensors.push_back(tensor(name, dimensions, 0, data.size()));
    for (const float value : values) data += number(value);
  }
};

}  // namespace keel::gguf_bytes
