#include "keel/ops/paged_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <span>

#include "keel/core/tensor/device.h"
#include "keel/kernels/cpu/paged_attention.h"
#include "keel/kernels/cuda/paged_attention.h"
#include "keel/ops/parallel_rows.h"

namespace keel {
namespace {

const PagedRow* row_pointer(const Tensor& rows) {
  return reinterpret_cast<const PagedRow*>(rows.const_data_ptr<int32_t>());
}

int64_t max_keys(const Tensor& rows) {
  int64_t keys = 0;
  for (const PagedRow& row : std::span(row_pointer(rows), rows.size(0)))
    keys = std::max<int64_t>(keys, row.prompt_keys + row.own_keys);
  return keys;
}

/// A buffer for attention scores that each thread reuses.
float* thread_scores(int64_t count) {
  thread_local std::vector<float> scores;
  if (static_cast<int64_t>(scores.size()) < count) scores.resize(count);
  return scores.data();
}

}  // namespace

Tensor to_tensor(const std::vector<PagedRow>& rows) {
  const auto count = static_cast<int64_t>(rows.size());
  return at::from_blob(const_cast<PagedRow*>(rows.data()), {count, 4}, at::kInt).clone();
}

PagedAttention::PagedAttention(const std::vector<PagedRow>& rows, const std::vector<int32_t>& tables, at::Device device,
                               bool deterministic)
    : rows_(to_device_async(to_tensor(rows), device)),
      tables_(to_device_async(at::tensor(tables, at::kInt), device)),
      deterministic_(deterministic) {}

void PagedAttention::store(const KvCacheLayer& layer, const Heads& rotated) const {
  const Tensor k = contiguous_heads(rotated.key), v = contiguous_heads(rotated.value);
  const KvCachePointers blocks{layer.keys.mutable_data_ptr(), layer.values.mutable_data_ptr(), float_type(layer.keys),
                               k.size(1), k.size(2)};
  launch_on_cuda(k, "storing keys", [&](auto stream) {
    return cuda::store_rows(blocks, tables_.const_data_ptr<int32_t>(), row_pointer(rows_), k.size(0),
                            {nullptr, k.const_data_ptr(), v.const_data_ptr(), 0, k.stride(0), v.stride(0),
                             rotated.query.size(1), nullptr, nullptr},
                            stream);
  });
}

Tensor PagedAttention::attend(const KvCacheLayer& layer, const AttentionConfig& attention, const Heads& heads) const {
  const Tensor& query = heads.query;
  const int64_t count = query.size(0), query_heads = query.size(1), kv_heads = heads.key.size(1), width = query.size(2);
  Tensor result = at::empty(query.sizes(), query.options());
  const KvCachePointers blocks{layer.keys.mutable_data_ptr(), layer.values.mutable_data_ptr(), float_type(layer.keys),
                               kv_heads, width};
  const PagedAttentionConfig config{static_cast<float>(attention.scale), static_cast<float>(attention.softcap),
                                    attention.window, deterministic_};
  const int32_t* const tables = tables_.const_data_ptr<int32_t>();
  if (query.is_cuda()) {
    launch_on_cuda(query, "attention", [&](auto stream) {
      // Deterministic attention uses the trainer's rotate(), whose bits differ from the rotation in the kernel.
      const Heads inputs =
          one_row_per_sequence_ && !deterministic_ && cuda::can_rotate_heads(blocks) ? heads : heads.rotated();
      const Tensor q = contiguous_heads(inputs.query), k = contiguous_heads(inputs.key),
                   v = contiguous_heads(inputs.value);
      const auto angles = [](const Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; };
      return cuda::attend_rows(blocks, config, tables, row_pointer(rows_), count,
                               {q.const_data_ptr(), k.const_data_ptr(), v.const_data_ptr(), q.stride(0), k.stride(0),
                                v.stride(0), query_heads, angles(inputs.angles.cos), angles(inputs.angles.sin)},
                               one_row_per_sequence_, result.mutable_data_ptr(), stream);
    });
    return result;
  }
  const Heads rotated = heads.rotated();
  if (query.scalar_type() != at::kFloat) {  // The CPU cache is float32, also for narrower dtypes.
    const auto widen = [](const Tensor& x) { return x.to(at::kFloat); };
    return attend(layer, attention, {widen(rotated.query), widen(rotated.key), widen(rotated.value)})
        .to(query.scalar_type());
  }
  const Tensor q = rotated.query.contiguous(), k = rotated.key.contiguous(), v = rotated.value.contiguous();
  const float *q_data = q.const_data_ptr<float>(), *k_data = k.const_data_ptr<float>(),
              *v_data = v.const_data_ptr<float>();
  float* const out = result.mutable_data_ptr<float>();
  const PagedRow* const rows = row_pointer(rows_);
  const int64_t keys = max_keys(rows_);
  cpu::store_rows(blocks, tables, rows, count, k_data, v_data);
  parallel_for_rows(count, query_heads * width * keys / 4, [&](int64_t first, int64_t num_rows) {
    cpu::attend_rows(blocks, config, tables, rows + first, num_rows, q_data + first * query_heads * width, query_heads,
                     thread_scores(keys + kBlockTokens), out + first * query_heads * width);
  });
  return result;
}

}  // namespace keel
