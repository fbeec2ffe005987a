#include "keel/ops/packed_flash_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <map>

#include "keel/core/tensor/precision.h"

namespace keel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Layout = PackedFlashAttention::Layout;
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
    const auto tensor = [&](const std::vector<int32_t>& begins) { return at::tensor(begins, at::kInt).to(device); };
    return {tensor(query_begins), tensor(key_begins), most_queries, most_keys, causal};
  }
};

/// What a pass gives: the outputs [N, heads, D] and the log of each softmax's sum [heads, N], float32; and what its
/// backward wants to see again.
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

struct PackedFlash : torch::autograd::Function<PackedFlash> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                        const Layout* layout) {
    Pass own = attend(layout->own, scale, q, k, v);
    if (layout->query_rows.defined()) {
      const Tensor& rows = layout->query_rows;
      const Pass shared = attend(layout->shared, scale, q.index_select(0, rows), k.index_select(0, layout->key_rows),
                                 v.index_select(0, layout->key_rows));
      const Tensor before = own.log_sum.index_select(1, rows), together = at::logaddexp(before, shared.log_sum);
      const auto share = [&](const Tensor& out, const Tensor& log_sum) {
        return out.to(at::kFloat) * (log_sum - together).exp().t().unsqueeze(2);
      };
      const Tensor out = share(own.out.index_select(0, rows), before) + share(shared.out, shared.log_sum);
      own.out.index_copy_(0, rows, out.to(own.out.scalar_type()));
      own.log_sum.index_copy_(1, rows, together);
    }
    context->save_for_backward({q, k, v, own.out, own.log_sum, own.random_state, own.unused, layout->own.query_begins,
                                layout->own.key_begins, layout->shared.query_begins, layout->shared.key_begins,
                                layout->query_rows, layout->key_rows});
    context->saved_data["scale"] = scale;
    context->saved_data["most"] = std::vector<int64_t>{layout->own.most_queries, layout->own.most_keys,
                                                       layout->shared.most_queries, layout->shared.most_keys};
    return own.out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], dout = gradients[0].contiguous();
    const Pass whole{saved[3], saved[4], saved[5], saved[6]};
    const double scale = context->saved_data["scale"].toDouble();
    const std::vector<int64_t> most = context->saved_data["most"].toIntVector();
    const Layout layout{{saved[7], saved[8], most[0], most[1], /*causal=*/true},
                        {saved[9], saved[10], most[2], most[3], /*causal=*/false},
                        saved[11],
                        saved[12]};
    const Gradients own = gradients_of(layout.own, scale, dout, q, k, v, whole);
    if (layout.query_rows.defined()) {
      const Tensor &rows = layout.query_rows, &keys = layout.key_rows;
      const Pass part{whole.out.index_select(0, rows), whole.log_sum.index_select(1, rows).contiguous(),
                      whole.random_state, whole.unused};
      const Gradients shared = gradients_of(layout.shared, scale, dout.index_select(0, rows), q.index_select(0, rows),
                                            k.index_select(0, keys), v.index_select(0, keys), part);
      own.q.index_add_(0, rows, shared.q);  // no row twice
      own.k.index_add_(0, keys, shared.k);
      own.v.index_add_(0, keys, shared.v);
    }
    return {own.q, own.k, own.v, Tensor(), Tensor()};
  }
};

}  // namespace

PackedFlashAttention::PackedFlashAttention(const std::vector<Segment>& segments, at::Device device) {
  RunLengths own, shared;
  std::map<int64_t, std::vector<const Segment*>> of_prompt;  // by where it begins
  for (const Segment& segment : segments) {
    if (segment.length == 0) continue;
    own.add(segment.length, segment.length);
    if (segment.prefix_length > 0) of_prompt[segment.prefix_begin].push_back(&segment);
  }
  std::vector<int64_t> query_rows, key_rows;
  const auto add_rows = [](std::vector<int64_t>& rows, int64_t begin, int64_t count) {
    for (int64_t i = 0; i < count; ++i) rows.push_back(begin + i);
  };
  for (const auto& [begin, completions] : of_prompt) {
    int64_t queries = 0;
    for (const Segment* completion : completions) {
      add_rows(query_rows, completion->begin, completion->length);
      queries += completion->length;
    }
    const int64_t keys = completions.front()->prefix_length;
    add_rows(key_rows, begin, keys);
    shared.add(queries, keys);
  }
  const auto on_device = [&](const std::vector<int64_t>& rows) { return at::tensor(rows, at::kLong).to(device); };
  layout_.own = own.on(device, /*causal=*/true);
  if (query_rows.empty()) return;
  layout_.shared = shared.on(device, /*causal=*/false);
  layout_.query_rows = on_device(query_rows);
  layout_.key_rows = on_device(key_rows);
}

bool PackedFlashAttention::takes(const AttentionRule& rule, at::Device device, at::ScalarType type, int64_t width) {
  return device.is_cuda() && is_narrow(type) && rule.softcap == 0 && rule.window == 0 && width % 8 == 0 && width <= 256;
}

Tensor PackedFlashAttention::operator()(const AttentionRule& rule, const Tensor& query, const Tensor& key,
                                        const Tensor& value) const {
  return PackedFlash::apply(query.contiguous(), key.contiguous(), value.contiguous(), rule.scale, &layout_);
}

}  // namespace keel
