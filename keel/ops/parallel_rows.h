#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

#include "keel/ops/launch.h"

namespace keel {

/// Calls body(first row, row count) in parallel. `width`: the cost of a row, in elements.
template <class Body>
void parallel_for_rows(int64_t rows, int64_t width, const Body& body) {
  constexpr int64_t kGrain = 1 << 15;  // elements per task
  at::parallel_for(0, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(width, 1)),
                   [&](int64_t begin, int64_t end) { body(begin, end - begin); });
}

/// Runs a kernel over the rows of a matrix on its device: on_cpu(first row, row count) in parallel, or on_cuda(stream)
/// by launch_on_cuda().
template <class OnCuda, class OnCpu>
void run_row_kernel(const Tensor& matrix, const char* kernel, const OnCuda& on_cuda, const OnCpu& on_cpu) {
  if (matrix.is_cuda())
    launch_on_cuda(matrix, kernel, on_cuda);
  else
    parallel_for_rows(matrix.size(0), matrix.size(1), on_cpu);
}

}  // namespace keel
