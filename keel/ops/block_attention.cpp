#include "keel/ops/block_attention.h"

#include <ATen/ATen.h>

#include "keel/kernels/cpu/block_attention.h"
#include "keel/kernels/cuda/block_attention.h"
#include "keel/ops/float_type.h"
#include "keel/ops/for_rows.h"

namespace keel {
namespace {

Tensor on_device(const void* data, int64_t count, at::Device device) {
  return at::from_blob(const_cast<void*>(data), {count}, at::kInt).to(device);
}

/// Room for scores that a thread keeps: taken once, not for every token.
float* scores_of_thread(int64_t count) {
  thread_local std::vector<float> scores;
  if (static_cast<int64_t>(scores.size()) < count) scores.resize(count);
  return scores.data();
}

}  // namespace

BlockRows::BlockRows(std::vector<BlockRow> rows, std::vector<int32_t> tables, at::Device device)
    : rows_(std::move(rows)), tables_(std::move(tables)) {
  for (const BlockRow& row : rows_) most_keys_ = std::max<int64_t>(most_keys_, row.prompt_keys + row.own_keys);
  if (device.is_cpu()) return;
  device_rows_ = on_device(rows_.data(), static_cast<int64_t>(rows_.size()) * 4, device);
  device_tables_ = on_device(tables_.data(), static_cast<int64_t>(tables_.size()), device);
}

Tensor BlockRows::attend(const BlockTensors& layer, const AttentionRule& rule, const Tensor& query, const Tensor& key,
                         const Tensor& value) const {
  const Tensor q = query.contiguous(), k = key.contiguous(), v = value.contiguous();
  const int64_t count = q.size(0), heads = q.size(1), kv_heads = k.size(1), width = q.size(2);
  Tensor result = at::empty_like(q);
  const BlockLayer blocks{layer.keys.mutable_data_ptr(), layer.values.mutable_data_ptr(), float_type(layer.keys),
                          kv_heads, width};
  const BlockRule how{static_cast<float>(rule.scale), static_cast<float>(rule.softcap), rule.window};
  if (q.is_cuda()) {
    launch_on_cuda(q, "attention", [&](auto stream) {
      const auto* rows = reinterpret_cast<const BlockRow*>(device_rows_.const_data_ptr<int32_t>());
      const int32_t* const tables = device_tables_.const_data_ptr<int32_t>();
      const int error = cuda::store_rows(blocks, tables, rows, count, k.const_data_ptr(), v.const_data_ptr(), stream);
      return error != 0 ? error
                        : cuda::attend_rows(blocks, how, tables, rows, count, q.const_data_ptr(), heads,
                                            result.mutable_data_ptr(), stream);
    });
    return result;
  }
  if (q.scalar_type() != at::kFloat) {  // kept in float32 here, whatever it was rounded to before
    const auto wide = [](const Tensor& x) { return x.to(at::kFloat); };
    return attend(layer, rule, wide(q), wide(k), wide(v)).to(q.scalar_type());
  }
  const float *from_q = q.const_data_ptr<float>(), *from_k = k.const_data_ptr<float>(),
              *from_v = v.const_data_ptr<float>();
  float* const to = result.mutable_data_ptr<float>();
  cpu::store_rows(blocks, tables_.data(), rows_.data(), count, from_k, from_v);
  for_rows(count, heads * width * most_keys_ / 4, [&](int64_t first, int64_t some) {
    cpu::attend_rows(blocks, how, tables_.data(), rows_.data() + first, some, from_q + first * heads * width, heads,
                     scores_of_thread(most_keys_ + kBlockTokens), to + first * heads * width);
  });
  return result;
}

}  // namespace keel
