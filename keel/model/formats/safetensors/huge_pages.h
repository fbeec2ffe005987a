#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// An uninitialised CPU tensor that is backed by huge pages if it fills one. With small pages, page faults take most of
/// the time of reading a cached file.
Tensor empty_in_huge_pages(const std::vector<int64_t>& shape, at::ScalarType dtype);

/// Calls body(begin, end) in parallel for parts of [0, bytes), split at huge-page boundaries.
void parallel_for_huge_pages(int64_t bytes, const std::function<void(int64_t, int64_t)>& body);

}  // namespace keel
