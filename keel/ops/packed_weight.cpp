#include "keel/ops/packed_weight.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "keel/kernels/cpu/packed_gemm.h"
#include "keel/ops/parallel_rows.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace keel {
namespace {

/// Requests huge pages for a tensor that is read completely for every token: with small pages, TLB misses take a large
/// part of that time, above all in virtual machines. Call it before the tensor is filled.
void request_huge_pages([[maybe_unused]] const Tensor& tensor) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t kPage = 2 << 20;
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr()), first = (begin + kPage - 1) / kPage * kPage,
             end = (begin + tensor.nbytes()) / kPage * kPage;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);  // Failure only costs speed.
#endif
}

}  // namespace

Tensor PackedWeightMemory::allocate(at::IntArrayRef shape) {
  constexpr int64_t kMaxBlockBytes = 24 << 20;  // unless one weight is larger
  const int64_t needed = c10::multiply_integers(shape), available = block_.defined() ? block_.numel() - used_ : 0;
  if (needed > available) {
    const int64_t grown = block_.defined() ? std::min<int64_t>(2 * block_.numel(), kMaxBlockBytes / sizeof(float)) : 0;
    block_ = at::empty({std::max(needed, grown)}, at::kFloat);
    request_huge_pages(block_);
    used_ = 0;
  }
  const Tensor part = block_.narrow(0, used_, needed).view(shape);
  used_ += needed;
  return part;
}

PackedWeight::PackedWeight(const std::vector<Tensor>& weights, PackedWeightMemory& memory)
    : inputs_(weights[0].size(1)) {
  const at::NoGradGuard no_grad;
  std::vector<Tensor> contiguous;  // owns the rows
  std::vector<const float*> rows;  // one per output
  for (const Tensor& weight : weights) {
    TORCH_CHECK(weight.dim() == 2 && weight.size(1) == inputs_ && weight.scalar_type() == at::kFloat,
                "weights that are packed together need the same inputs and float32: ", weight.sizes());
    contiguous.push_back(weight.contiguous());
    const float* const from = contiguous.back().const_data_ptr<float>();
    for (int64_t row = 0; row < weight.size(0); ++row) rows.push_back(from + row * inputs_);
  }
  outputs_ = static_cast<int64_t>(rows.size());
  panels_ = memory.allocate({cpu::panel_count(outputs_), inputs_, cpu::kPanel});
  float* const to = panels_.mutable_data_ptr<float>();
  parallel_for_rows(panels_.size(0), inputs_ * cpu::kPanel, [&](int64_t first, int64_t count) {
    for (int64_t p = first; p < first + count; ++p)
      cpu::pack_panel(&rows[p * cpu::kPanel], std::min(cpu::kPanel, outputs_ - p * cpu::kPanel), inputs_,
                      to + p * inputs_ * cpu::kPanel);
  });
}

Tensor PackedWeight::operator()(const Tensor& x) const {
  const Tensor rows = x.contiguous();
  Tensor y = at::empty({rows.size(0), outputs_}, rows.options());
  const float *from = rows.const_data_ptr<float>(), *panels = panels_.const_data_ptr<float>();
  float* const to = y.mutable_data_ptr<float>();
  parallel_for_rows(panels_.size(0), rows.size(0) * inputs_ * cpu::kPanel / 4, [&](int64_t first, int64_t count) {
    cpu::packed_gemm(from, rows.size(0), inputs_, panels, outputs_, first, count, to);
  });
  return y;
}

}  // namespace keel
