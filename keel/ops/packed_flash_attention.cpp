#include "keel/ops/packed_flash_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <map>

#include "keel/core/tensor/device.h"
#include "keel/core/tensor/precision.h"
#include "keel/kernels/cuda/merge_attention.h"
#include "keel/ops/launch.h"

namespace keel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Layout = PackedFlashAttention::Layout;
using Rows = PackedFlashAttention::Rows;
using Runs = PackedFlashAttention::Runs;

/// Collects runs on the host.
struct RunLengths {
  std::vector<int32_t> query_begins = {0}, key_begins = {0};
  int64_t most_queries = 0, most_keys = 0;

  void add(int64_t queries, int64_t keys) {
    query_begins.push_back(query_begins.back() + static_cast<int32_t>(queries));
    key_begins.push_back(key_begins.back() + static_cast<int32_t>(keys));
    most_queries = std::max(most_queries, queries);
    most_keys = std::max(most_keys, keys);
  }
  Runs on(at::Device device, bool causal) const {
    const auto tensor = [&](const std::vector<int32_t>& begins) { return sent(at::tensor(begins, at::kInt), device); };
    return {tensor(query_begins), tensor(key_begins), most_queries, most_keys, causal};
  }
};

/// Whether the only completion of a prompt stands right behind it: the two are one run then.
bool goes_on(const std::vector<const Segment*>& completions) {
  const Segment& first = *completions.front();
  return completions.size() == 1 && first.prefix_begin + first.prefix_length == first.begin;
}

Rows rows_on(at::Device device, const std::vector<int64_t>& rows) {
  Rows result{rows.front(), static_cast<int64_t>(rows.size())};
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i] != result.begin + static_cast<int64_t>(i)) {
      result.any = sent(at::tensor(rows, at::kLong), device);
      break;
    }
  return result;
}

/// The outputs [N, heads, D] and log-sum-exps [heads, N] float32 of a pass, and what its backward needs.
struct Pass {
  Tensor out, log_sum, random_state, unused;
};

Pass attend(const Runs& runs, double scale, const Tensor& q, const Tensor& k, const Tensor& v) {
  auto [out, log_sum, random_state, unused, mask] = at::_flash_attention_forward(
      q, k, v, runs.query_begins, runs.key_begins, runs.most_queries, runs.most_keys, /*dropout_p=*/0.0, runs.causal,
      /*return_debug_mask=*/false, scale);
  return {out, log_sum, random_state, unused};
}

struct Gradients {
  Tensor q, k, v;
};

/// With the outputs and log-sums of all that a query saw, this pass's share of the gradients is exact.
Gradients gradients_of(const Runs& runs, double scale, const Tensor& dout, const Tensor& q, const Tensor& k,
                       const Tensor& v, const Pass& whole) {
  auto [dq, dk, dv] = at::_flash_attention_backward(
      dout, q, k, v, whole.out, whole.log_sum, runs.query_begins, runs.key_begins, runs.most_queries, runs.most_keys,
      /*dropout_p=*/0.0, runs.causal, whole.random_state, whole.unused, scale);
  return {dq, dk, dv};
}

/// Makes of what these rows saw of themselves what they saw in all.
void merge(const Pass& own, const Pass& shared, const Rows& rows) {
  launch_on_cuda(own.out, "merging attention", [&](auto stream) {
    return cuda::merge_attention(own.out.mutable_data_ptr(), own.log_sum.mutable_data_ptr<float>(), own.out.size(0),
                                 rows.begin, rows.any.defined() ? rows.any.const_data_ptr<int64_t>() : nullptr,
                                 shared.out.const_data_ptr(), shared.log_sum.const_data_ptr<float>(),
                                 float_type(own.out), rows.count, own.out.size(1), own.out.size(2), stream);
  });
}

struct PackedFlash : torch::autograd::Function<PackedFlash> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                        const Layout* layout) {
    Pass own = attend(layout->own, scale, q, k, v);
    if (layout->query_rows.count > 0) {
      const Pass shared =
          attend(layout->shared, scale, layout->query_rows.of(q), layout->key_rows.of(k), layout->key_rows.of(v));
      merge(own, shared, layout->query_rows);
    }
    context->save_for_backward({q, k, v, own.out, own.log_sum, own.random_state, own.unused, layout->own.query_begins,
                                layout->own.key_begins, layout->shared.query_begins, layout->shared.key_begins,
                                layout->query_rows.any, layout->key_rows.any});
    context->saved_data["scale"] = scale;
    context->saved_data["numbers"] = std::vector<int64_t>{
        layout->own.most_queries, layout->own.most_keys,    layout->shared.most_queries, layout->shared.most_keys,
        layout->query_rows.begin, layout->query_rows.count, layout->key_rows.begin,      layout->key_rows.count};
    return own.out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], dout = gradients[0].contiguous();
    const Pass whole{saved[3], saved[4], saved[5], saved[6]};
    const double scale = context->saved_data["scale"].toDouble();
    const std::vector<int64_t> n = context->saved_data["numbers"].toIntVector();
    const Layout layout{{saved[7], saved[8], n[0], n[1], /*causal=*/true},
                        {saved[9], saved[10], n[2], n[3], /*causal=*/false},
                        {n[4], n[5], saved[11]},
                        {n[6], n[7], saved[12]}};
    const Gradients own = gradients_of(layout.own, scale, dout, q, k, v, whole);
    if (layout.query_rows.count > 0) {
      const Rows &rows = layout.query_rows, &keys = layout.key_rows;
      const Pass part{rows.of(whole.out), rows.of(whole.log_sum, 1).contiguous(), whole.random_state, whole.unused};
      const Gradients shared =
          gradients_of(layout.shared, scale, rows.of(dout), rows.of(q), keys.of(k), keys.of(v), part);
      rows.add_to(own.q, shared.q);
      keys.add_to(own.k, shared.k);
      keys.add_to(own.v, shared.v);
    }
    return {own.q, own.k, own.v, Tensor(), Tensor()};
  }
};

}  // namespace

Tensor Rows::of(const Tensor& x, int64_t dim) const {
  return any.defined() ? x.index_select(dim, any) : x.narrow(dim, begin, count);
}

void Rows::add_to(const Tensor& x, const Tensor& added) const {
  if (any.defined())
    x.index_add_(0, any, added);  // no row twice
  else
    x.narrow(0, begin, count).add_(added);
}

PackedFlashAttention::PackedFlashAttention(const std::vector<Segment>& segments, at::Device device) {
  std::map<int64_t, std::vector<const Segment*>> of_prompt;  // by where it begins
  for (const Segment& segment : segments)
    if (segment.length > 0 && segment.prefix_length > 0) of_prompt[segment.prefix_begin].push_back(&segment);
  RunLengths own, shared;
  std::vector<int64_t> query_rows, key_rows;
  const auto add_rows = [](std::vector<int64_t>& rows, int64_t begin, int64_t count) {
    for (int64_t i = 0; i < count; ++i) rows.push_back(begin + i);
  };
  for (const auto& [begin, completions] : of_prompt) {
    if (goes_on(completions)) continue;
    int64_t queries = 0;
    for (const Segment* completion : completions) {
      add_rows(query_rows, completion->begin, completion->length);
      queries += completion->length;
    }
    const int64_t keys = completions.front()->prefix_length;
    add_rows(key_rows, begin, keys);
    shared.add(queries, keys);
  }
  for (const Segment& segment : segments) {
    if (segment.length == 0) continue;
    const auto found = of_prompt.find(segment.begin);
    int64_t length = segment.length;
    if (segment.prefix_length > 0 && goes_on(of_prompt.at(segment.prefix_begin))) continue;  // counted with its prompt
    if (segment.prefix_length == 0 && found != of_prompt.end() && goes_on(found->second))
      length += found->second.front()->length;
    own.add(length, length);
  }
  layout_.own = own.on(device, /*causal=*/true);
  if (query_rows.empty()) return;
  layout_.shared = shared.on(device, /*causal=*/false);
  layout_.query_rows = rows_on(device, query_rows);
  layout_.key_rows = rows_on(device, key_rows);
}

bool PackedFlashAttention::supports(const AttentionConfig& attention, at::Device device, at::ScalarType type,
                                    int64_t width) {
  return device.is_cuda() && is_narrow(type) && attention.softcap == 0 && attention.window == 0 && width % 8 == 0 &&
         width <= 256;
}

Tensor PackedFlashAttention::operator()(const AttentionConfig& attention, const Tensor& query, const Tensor& key,
                                        const Tensor& value) const {
  return PackedFlash::apply(query.contiguous(), key.contiguous(), value.contiguous(), attention.scale, &layout_);
}

}  // namespace keel
