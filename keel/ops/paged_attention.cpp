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

const PagedRow* rows_in(const Tensor& rows) {
  return reinterpret_cast<const PagedRow*>(rows.const_data_ptr<int32_t>());
}

int64_t most_keys(const Tensor& rows) {
  int64_t most = 0;
  for (const PagedRow& row : std::span(rows_in(rows), rows.size(0)))
    most = std::max<int64_t>(most, row.prompt_keys + row.own_keys);
  return most;
}

/// Room for scores that a thread keeps: taken once, not for every token.
float* scores_of_thread(int64_t count) {
  thread_local std::vector<float> scores;
  if (static_cast<int64_t>(scores.size()) < count) scores.resize(count);
  return scores.data();
}

}  // namespace

Tensor tensor_of(const std::vector<PagedRow>& rows) {
  const auto count = static_cast<int64_t>(rows.size());
  return at::from_blob(const_cast<PagedRow*>(rows.data()), {count, 4}, at::kInt).clone();
}

PagedAttention::PagedAttention(const std::vector<PagedRow>& rows, const std::vector<int32_t>& tables, at::Device device,
                               bool deterministic)
    : rows_(sent(tensor_of(rows), device)),
      tables_(sent(at::tensor(tables, at::kInt), device)),
      one_order_(deterministic) {}

void PagedAttention::store(const KvCacheLayer& layer, const Heads& rotated) const {
  const Tensor k = contiguous_heads(rotated.key), v = contiguous_heads(rotated.value);
  const KvCachePointers blocks{layer.keys.mutable_data_ptr(), layer.values.mutable_data_ptr(), float_type(layer.keys),
                               k.size(1), k.size(2)};
  launch_on_cuda(k, "storing keys", [&](auto stream) {
    return cuda::store_rows(blocks, tables_.const_data_ptr<int32_t>(), rows_in(rows_), k.size(0),
                            {nullptr, k.const_data_ptr(), v.const_data_ptr(), 0, k.stride(0), v.stride(0),
                             rotated.query.size(1), nullptr, nullptr},
                            stream);
  });
}

Tensor PagedAttention::attend(const KvCacheLayer& layer, const AttentionConfig& attention, const Heads& given) const {
  const Tensor& query = given.query;
  const int64_t count = query.size(0), heads = query.size(1), kv_heads = given.key.size(1), width = query.size(2);
  Tensor result = at::empty(query.sizes(), query.options());
  const KvCachePointers blocks{layer.keys.mutable_data_ptr(), layer.values.mutable_data_ptr(), float_type(layer.keys),
                               kv_heads, width};
  const PagedAttentionConfig how{static_cast<float>(attention.scale), static_cast<float>(attention.softcap),
                                 attention.window, one_order_};
  const int32_t* const tables = tables_.const_data_ptr<int32_t>();
  if (query.is_cuda()) {
    launch_on_cuda(query, "attention", [&](auto stream) {
      // In one order they are turned by the kernel that training turns them with.
      const Heads from = alone_ && !one_order_ && cuda::can_rotate_heads(blocks) ? given : given.rotated();
      const Tensor q = contiguous_heads(from.query), k = contiguous_heads(from.key), v = contiguous_heads(from.value);
      const auto angles = [](const Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; };
      return cuda::attend_rows(blocks, how, tables, rows_in(rows_), count,
                               {q.const_data_ptr(), k.const_data_ptr(), v.const_data_ptr(), q.stride(0), k.stride(0),
                                v.stride(0), heads, angles(from.angles.cos), angles(from.angles.sin)},
                               alone_, result.mutable_data_ptr(), stream);
    });
    return result;
  }
  const Heads rotated = given.rotated();
  if (query.scalar_type() != at::kFloat) {  // kept in float32 here, whatever it was rounded to before
    const auto wide = [](const Tensor& x) { return x.to(at::kFloat); };
    return attend(layer, attention, {wide(rotated.query), wide(rotated.key), wide(rotated.value)})
        .to(query.scalar_type());
  }
  const Tensor q = rotated.query.contiguous(), k = rotated.key.contiguous(), v = rotated.value.contiguous();
  const float *from_q = q.const_data_ptr<float>(), *from_k = k.const_data_ptr<float>(),
              *from_v = v.const_data_ptr<float>();
  float* const to = result.mutable_data_ptr<float>();
  const PagedRow* const rows = rows_in(rows_);
  const int64_t most = most_keys(rows_);
  cpu::store_rows(blocks, tables, rows, count, from_k, from_v);
  parallel_for_rows(count, heads * width * most / 4, [&](int64_t first, int64_t some) {
    cpu::attend_rows(blocks, how, tables, rows + first, some, from_q + first * heads * width, heads,
                     scores_of_thread(most + kBlockTokens), to + first * heads * width);
  });
  return result;
}

}  // namespace keel
