#include "keel/model/formats/safetensors/huge_pages.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sys/mman.h>

#include <algorithm>

namespace keel {
namespace {

constexpr int64_t kHugePageBytes = 2 << 20;

int64_t round_up(int64_t bytes) { return (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes; }

}  // namespace

Tensor empty_in_huge_pages(const std::vector<int64_t>& shape, at::ScalarType dtype) {
  const auto options = at::TensorOptions().dtype(dtype);
  int64_t bytes = static_cast<int64_t>(c10::elementSize(dtype));
  for (const int64_t size : shape) bytes *= size;
  if (bytes < kHugePageBytes) return at::empty(shape, options);
  const size_t reserved = static_cast<size_t>(bytes + kHugePageBytes);
  void* const block = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return at::empty(shape, options);  // throws PyTorch's error, which has the size
  void* const start = reinterpret_cast<void*>(round_up(reinterpret_cast<intptr_t>(block)));
  // The rest after the last full huge page stays in small pages, to save memory. madvise is only a hint and may fail.
  madvise(start, static_cast<size_t>(bytes / kHugePageBytes * kHugePageBytes), MADV_HUGEPAGE);
  return at::from_blob(
      start, shape, [block, reserved](void*) { munmap(block, reserved); }, options);
}

void parallel_for_huge_pages(int64_t bytes, const std::function<void(int64_t, int64_t)>& body) {
  at::parallel_for(0, round_up(bytes) / kHugePageBytes, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    for (int64_t page = begin; page < end; ++page)
      body(page * kHugePageBytes, std::min((page + 1) * kHugePageBytes, bytes));
  });
}

}  // namespace keel
