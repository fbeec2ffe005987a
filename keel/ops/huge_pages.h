#pragma once

#include <cstdint>

#include "keel/core/tensor/tensor.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace keel {

/// Asks for large pages under a tensor that is read from end to end for every token: with small ones a processor, and
/// more so one inside a virtual machine, spends a good part of that on looking up where they are. Before it is filled.
inline void prefer_huge_pages([[maybe_unused]] const Tensor& tensor) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t kPage = 2 << 20;
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr()), first = (begin + kPage - 1) / kPage * kPage,
             end = (begin + tensor.nbytes()) / kPage * kPage;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);  // a wish: refusal costs time
#endif
}

}  // namespace keel
