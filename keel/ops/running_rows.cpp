#include "keel/ops/running_rows.h"

#include <ATen/ATen.h>

#include "keel/kernels/cuda/running_rows.h"
#include "keel/kernels/running_rows.h"
#include "keel/ops/cuda_launch.h"

namespace keel {

RunningRows RunningRows::first(int64_t count) const {
  const auto part = [&](const Tensor& x) { return x.narrow(0, 0, count); };
  return {part(tokens), part(positions), part(places), part(limits), part(rows)};
}

void advance(const RunningRows& running, const Tensor& drawn, const Tensor& stop_ids) {
  const RunningRowPointers rows{running.tokens.mutable_data_ptr<int64_t>(),
                                running.positions.mutable_data_ptr<int64_t>(),
                                running.places.mutable_data_ptr<int64_t>(),
                                running.limits.const_data_ptr<int64_t>(),
                                reinterpret_cast<BlockRow*>(running.rows.mutable_data_ptr<int32_t>()),
                                running.tokens.size(0)};
  const DrawnRowPointers what{drawn.const_data_ptr<int64_t>(), stop_ids.const_data_ptr<int64_t>(), stop_ids.size(0)};
  if (drawn.is_cuda())
    launch_on_cuda(drawn, "advancing", [&](auto stream) { return cuda::advance_rows(rows, what, stream); });
  else
    for (int64_t i = 0; i < rows.count; ++i) advance_row(rows, what, i);
}

}  // namespace keel
