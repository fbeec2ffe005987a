#include "fuzz/memory_file.h"

#include <cstdlib>
#include <cstring>
#include <span>

#include "keel/core/error.h"
#include "keel/core/files/file.h"

namespace {

std::span<const uint8_t> input;

}  // namespace

namespace keel {

void fuzz::set_input(const uint8_t* data, size_t size) { input = {data, size}; }

int FileHandle::close() { return 0; }

InputFile InputFile::open(const std::filesystem::path& path) {
  InputFile file;
  file.path_ = path;
  file.size_ = input.size();
  return file;
}

/// A read past the end is a bug of the reader, which knows the size.
void InputFile::read_at(uint64_t offset, std::span<std::byte> to) const {
  if (offset > input.size() || to.size() > input.size() - offset) std::abort();
  if (!to.empty()) std::memcpy(to.data(), input.data() + offset, to.size());
}

// Needed to link: the readers' sources also contain writers.
DurableFile::DurableFile(std::filesystem::path, Existing) { std::abort(); }
void DurableFile::write(std::span<const std::byte>) { std::abort(); }
void DurableFile::commit() { std::abort(); }
void DurableFile::discard() noexcept { std::abort(); }

}  // namespace keel
