#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// A CPU tensor that starts at a large page of its own, where it is big enough to fill one: most of the time of a read
/// from a warm cache goes into the first touch of small pages.
Tensor empty_in_large_pages(const std::vector<int64_t>& shape, at::ScalarType dtype);

/// Calls body(begin, end) for parts of [0, bytes) that the threads share, cut where large pages are.
void share_large_pages(int64_t bytes, const std::function<void(int64_t, int64_t)>& body);

}  // namespace keel
