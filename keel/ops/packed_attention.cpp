#include "keel/ops/packed_attention.h"

#include <ATen/ATen.h>

#include <limits>
#include <span>

namespace keel {
namespace {

/// Repeats key-value heads so that each query head has its own (grouped-query attention).
Tensor repeat_heads(const Tensor& x, int64_t heads) {  // [S, kv_heads, L, D]
  const int64_t repeat = heads / x.size(1);
  return repeat == 1 ? x : x.repeat_interleave(repeat, 1);
}

/// Additive mask [segments or 1, 1, query_length, key_length].
Tensor make_mask(std::span<const Segment> segments, int64_t query_length, int64_t key_length, int64_t window) {
  std::vector<float> mask(segments.size() * query_length * key_length, -std::numeric_limits<float>::infinity());
  for (size_t s = 0; s < segments.size(); ++s) {
    for (int64_t i = 0; i < query_length; ++i) {
      // Padding rows attend to the first key, because the softmax of a row of -inf is NaN.
      const int64_t end = i < segments[s].length ? segments[s].prefix_length + i + 1 : 1;
      const int64_t begin = window > 0 ? std::max<int64_t>(end - window, 0) : 0;
      std::fill_n(mask.begin() + (static_cast<int64_t>(s) * query_length + i) * key_length + begin, end - begin, 0.0f);
    }
  }
  return at::tensor(mask, at::kFloat).view({static_cast<int64_t>(segments.size()), 1, query_length, key_length});
}

/// softmax(cap tanh(scale q k / cap) + mask) v, with scores in float32; PyTorch's operator has no softcap.
Tensor capped_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                        const AttentionConfig& attention) {
  const Tensor scores =
      at::matmul(q.to(at::kFloat), k.transpose(2, 3).to(at::kFloat)) * (attention.scale / attention.softcap);
  return at::matmul(at::softmax(scores.tanh() * attention.softcap + mask, -1).to(v.scalar_type()), v);
}

}  // namespace

PackedAttention::PackedAttention(const std::vector<Segment>& segments, int64_t tokens, int64_t window,
                                 at::Device device)
    : output_rows_host_(tokens, 0) {
  // Segments with and without a prefix have different shapes; separate batches need less padding.
  std::vector<Segment> without_prefix, with_prefix;
  for (const Segment& segment : segments)
    if (segment.length > 0) (segment.prefix_length > 0 ? with_prefix : without_prefix).push_back(segment);
  int64_t first_row = 0;
  for (const auto& group : {without_prefix, with_prefix}) {
    if (group.empty()) continue;
    batches_.push_back(make_batch(group, first_row, window, device));
    first_row += batches_.back().segments * batches_.back().query_length;
  }
  output_rows_ = at::tensor(output_rows_host_, at::kLong).to(device);
}

PackedAttention::PaddedBatch PackedAttention::make_batch(const std::vector<Segment>& segments, int64_t first_row,
                                                         int64_t window, at::Device device) {
  PaddedBatch batch;
  batch.segments = static_cast<int64_t>(segments.size());
  bool same_lengths = true;
  for (const Segment& s : segments) {
    batch.query_length = std::max(batch.query_length, s.length);
    batch.key_length = std::max(batch.key_length, s.prefix_length + s.length);
    same_lengths = same_lengths && s.length == segments[0].length && s.prefix_length == segments[0].prefix_length;
  }
  std::vector<int64_t> query_rows(batch.segments * batch.query_length, 0),
      key_rows(batch.segments * batch.key_length, 0);
  for (int64_t s = 0; s < batch.segments; ++s) {
    const Segment& segment = segments[s];
    for (int64_t i = 0; i < segment.prefix_length; ++i) key_rows[s * batch.key_length + i] = segment.prefix_begin + i;
    for (int64_t i = 0; i < segment.length; ++i) {
      key_rows[s * batch.key_length + segment.prefix_length + i] = segment.begin + i;
      query_rows[s * batch.query_length + i] = segment.begin + i;
      output_rows_host_[segment.begin + i] = first_row + s * batch.query_length + i;
    }
  }
  batch.query_rows = at::tensor(query_rows, at::kLong).to(device);
  batch.key_rows = at::tensor(key_rows, at::kLong).to(device);
  const std::span<const Segment> mask_segments(segments.data(), same_lengths ? 1 : segments.size());
  batch.mask = make_mask(mask_segments, batch.query_length, batch.key_length, 0).to(device);
  if (window > 0) batch.window_mask = make_mask(mask_segments, batch.query_length, batch.key_length, window).to(device);
  return batch;
}

Tensor PackedAttention::operator()(const AttentionConfig& attention, const Tensor& query, const Tensor& key,
                                   const Tensor& value) const {
  const int64_t heads = query.size(1), width = query.size(2);
  const auto gather = [](const Tensor& x, const Tensor& rows, int64_t segments, int64_t length) {
    return x.index_select(0, rows).view({segments, length, x.size(1), x.size(2)}).transpose(1, 2);
  };
  std::vector<Tensor> outputs;
  for (const PaddedBatch& b : batches_) {
    const Tensor q = gather(query, b.query_rows, b.segments, b.query_length);
    const Tensor k = repeat_heads(gather(key, b.key_rows, b.segments, b.key_length), heads);
    const Tensor v = repeat_heads(gather(value, b.key_rows, b.segments, b.key_length), heads);
    const Tensor& mask = attention.window > 0 ? b.window_mask : b.mask;
    const Tensor out =
        attention.softcap > 0  // [S, heads, length, D]
            ? capped_attention(q, k, v, mask, attention)
            : at::scaled_dot_product_attention(q, k, v, mask.to(q.scalar_type()), 0.0, false, attention.scale);
    outputs.push_back(out.transpose(1, 2).reshape({-1, heads, width}));
  }
  const Tensor padded = outputs.size() == 1 ? outputs[0] : at::cat(outputs, 0);
  return padded.index_select(0, output_rows_);
}

}  // namespace keel
