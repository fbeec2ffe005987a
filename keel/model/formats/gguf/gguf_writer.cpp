#include "keel/model/formats/gguf/gguf_writer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/free_space.h"
#include "keel/model/formats/gguf/gguf_keys.h"

namespace keel {
namespace {

using enum gguf::ValueType;

constexpr uint64_t kTensorAlignment = 32;  // the default of readers

static_assert(std::endian::native == std::endian::little, "GGUF files are little-endian");

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& bytes, std::string_view text) {
  append(bytes, uint64_t{text.size()});
  bytes.append(text);
}

void append_list(std::string& bytes, gguf::ValueType type, size_t count) {
  append(bytes, static_cast<uint32_t>(type));
  append(bytes, uint64_t{count});
}

std::string make_padding(uint64_t bytes) {
  return std::string((kTensorAlignment - bytes % kTensorAlignment) % kTensorAlignment, '\0');
}

}  // namespace

void GgufWriter::add_key(std::string_view key, uint32_t type) {
  append_text(keys_, key);
  append(keys_, type);
  ++key_count_;
}

void GgufWriter::add_text(std::string_view key, std::string_view value) {
  add_key(key, kText);
  append_text(keys_, value);
}

void GgufWriter::add_count(std::string_view key, int64_t value) {
  if (value < 0 || value > UINT32_MAX)
    fail(ExitCode::kBadInput, key, " would be ", value, ", which does not fit the 32 bits of a GGUF file");
  add_key(key, kUint32);
  append(keys_, static_cast<uint32_t>(value));
}

void GgufWriter::add_number(std::string_view key, double value) {
  add_key(key, kFloat32);
  append(keys_, static_cast<float>(value));
}

void GgufWriter::add_flag(std::string_view key, bool value) {
  add_key(key, kBool);
  append(keys_, static_cast<uint8_t>(value));
}

void GgufWriter::add_texts(std::string_view key, std::span<const std::string> values) {
  add_key(key, kList);
  append_list(keys_, kText, values.size());
  for (const std::string& value : values) append_text(keys_, value);
}

void GgufWriter::add_numbers(std::string_view key, std::span<const double> values) {
  add_key(key, kList);
  append_list(keys_, kFloat32, values.size());
  for (const double value : values) append(keys_, static_cast<float>(value));
}

void GgufWriter::add_types(std::string_view key, std::span<const int> values) {
  add_key(key, kList);
  append_list(keys_, kInt32, values.size());
  for (const int value : values) append(keys_, int32_t{value});
}

void GgufWriter::add_tensor(std::string name, std::vector<int64_t> shape, const GgufFormat& format,
                            std::function<Tensor()> values) {
  const int64_t elements = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  if (format.from_float == nullptr || shape.back() % format.block_elements != 0)
    fail(ExitCode::kInternal, "the tensor ", name, " cannot be written as ", format.name);
  const uint64_t bytes = static_cast<uint64_t>(elements) / format.block_elements * format.block_bytes;
  tensors_.push_back({std::move(name), std::move(shape), &format, std::move(values), bytes});
}

void GgufWriter::write(const std::filesystem::path& path) const {
  std::string header = "GGUF";
  append(header, uint32_t{3});
  append(header, uint64_t{tensors_.size()});
  append(header, key_count_);
  header += keys_;
  uint64_t offset = 0;
  for (const PendingTensor& tensor : tensors_) {
    append_text(header, tensor.name);
    append(header, static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
      append(header, static_cast<uint64_t>(*size));
    append(header, tensor.format->id);
    append(header, offset);
    offset += tensor.bytes + make_padding(tensor.bytes).size();
  }
  header += make_padding(header.size());

  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  create_directories(folder);
  require_free_space(folder, header.size() + offset);
  DurableFile file(path, Existing::kStays);
  file.write(header);
  std::vector<std::byte> buffer;
  for (const PendingTensor& tensor : tensors_) {
    const Tensor values = tensor.values();
    const GgufFormat& format = *tensor.format;
    const float* from = values.const_data_ptr<float>();
    constexpr size_t kMaxBlocks = 16'384;
    const size_t blocks = tensor.bytes / format.block_bytes;
    for (size_t done = 0; done < blocks;) {
      const size_t count = std::min(kMaxBlocks, blocks - done);
      buffer.resize(count * format.block_bytes);
      format.from_float(from + done * format.block_elements, count, buffer.data());
      file.write(buffer);
      done += count;
    }
    file.write(make_padding(tensor.bytes));
  }
  file.commit();
}

}  // namespace keel
