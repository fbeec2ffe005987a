#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

#include "keel/ops/launch.h"

namespace keel {

/// Calls body(first row, rows) from several threads.
template <class Body>
void parallel_for_rows(int64_t rows, int64_t width, const Body& body) {
  constexpr int64_t kGrain = 1 << 15;  // elements worth a thread
  at::parallel_for(0, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(width, 1)),
                   [&](int64_t begin, int64_t end) { body(begin, end - begin); });
}

/// The same for a kernel over the rows of a matrix, wherever that is: on_cpu(first row, rows), or for a GPU
/// on_cuda(stream), which launch_on_cuda() explains.
template <class OnCuda, class OnCpu>
void run_row_kernel(const Tensor& matrix, const char* kernel, const OnCuda& on_cuda, const OnCpu& on_cpu) {
  if (matrix.is_cuda())
    launch_on_cuda(matrix, kernel, on_cuda);
  else
    parallel_for_rows(matrix.size(0), matrix.size(1), on_cpu);
}

}  // namespace keel
