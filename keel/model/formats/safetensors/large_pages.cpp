#include "keel/model/formats/safetensors/large_pages.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sys/mman.h>

#include <algorithm>

namespace keel {
namespace {

constexpr int64_t kLargePage = 2 << 20;

int64_t round_up(int64_t bytes) { return (bytes + kLargePage - 1) / kLargePage * kLargePage; }

}  // namespace

Tensor empty_in_large_pages(const std::vector<int64_t>& shape, at::ScalarType dtype) {
  const auto options = at::TensorOptions().dtype(dtype);
  int64_t bytes = static_cast<int64_t>(c10::elementSize(dtype));
  for (const int64_t size : shape) bytes *= size;
  if (bytes < kLargePage) return at::empty(shape, options);
  const size_t reserved = static_cast<size_t>(bytes + kLargePage);
  void* const block = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return at::empty(shape, options);  // which says how much memory is missing
  void* const start = reinterpret_cast<void*>(round_up(reinterpret_cast<intptr_t>(block)));
  // What does not fill a large page stays in small ones and takes no more memory than it needs. A wish: it may fail.
  madvise(start, static_cast<size_t>(bytes / kLargePage * kLargePage), MADV_HUGEPAGE);
  return at::from_blob(
      start, shape, [block, reserved](void*) { munmap(block, reserved); }, options);
}

void share_large_pages(int64_t bytes, const std::function<void(int64_t, int64_t)>& body) {
  at::parallel_for(0, round_up(bytes) / kLargePage, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    for (int64_t page = begin; page < end; ++page) body(page * kLargePage, std::min((page + 1) * kLargePage, bytes));
  });
}

}  // namespace keel
