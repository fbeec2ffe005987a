#include "keel/model/formats/gguf/gguf_file.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "keel/core/error.h"
#include "keel/core/untrusted_text.h"

namespace keel {

GgufFile::GgufFile(InputFile file) : file_(std::move(file)), header_(read_gguf_header(file_)) {
  by_name_.resize(header_.tensors.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return header_.tensors[a].name < header_.tensors[b].name; });
}

GgufFile GgufFile::open(const std::filesystem::path& path) { return GgufFile(InputFile::open(path)); }

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [&](uint32_t i, std::string_view key) { return header_.tensors[i].name < key; });
  return found != by_name_.end() && header_.tensors[*found].name == name ? &header_.tensors[*found] : nullptr;
}

const GgufTensor& GgufFile::at(std::string_view name) const {
  const GgufTensor* tensor = find(name);
  if (tensor == nullptr) {
    fail(ExitCode::kBadInput, path(), " has no tensor ", printable(name), " among its ", tensors().size(),
         "; check that the file belongs to this model");
  }
  return *tensor;
}

void GgufFile::read_into(std::string_view name, std::span<float> to) const {
  const GgufTensor& tensor = at(name);
  if (to.size() != static_cast<size_t>(tensor.elements())) {
    fail(ExitCode::kInternal, "reading ", printable(name), " of ", path(), " into a buffer of ", to.size(),
         " elements; it has ", tensor.elements());
  }
  const GgufFormat& format = *tensor.format;
  if (format.name == "F32") return file_.read_at(tensor.begin, std::as_writable_bytes(to));
  constexpr size_t kBufferBytes = 512 * 1024;
  const size_t blocks = to.size() / format.block_elements;
  const size_t blocks_at_once = std::min(blocks, kBufferBytes / format.block_bytes);
  std::vector<std::byte> buffer(blocks_at_once * format.block_bytes);
  for (size_t done = 0; done < blocks;) {
    const size_t count = std::min(blocks_at_once, blocks - done);
    file_.read_at(tensor.begin + done * format.block_bytes, std::span(buffer).first(count * format.block_bytes));
    format.to_float(buffer.data(), count, to.data() + done * format.block_elements);
    done += count;
  }
}

Tensor GgufFile::read(std::string_view name) const {
  const GgufTensor& info = at(name);
  const Tensor tensor = at::empty(info.shape, at::kFloat);
  read_into(name, std::span(tensor.mutable_data_ptr<float>(), static_cast<size_t>(tensor.numel())));
  return tensor;
}

}  // namespace keel
