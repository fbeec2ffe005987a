#include "keel/ops/packed_flash_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "keel/core/tensor/device.h"
#include "keel/core/tensor/precision.h"
#include "keel/kernels/cuda/merge_attention.h"
#include "keel/ops/launch.h"

namespace keel {

struct PackedFlashAttention::Layout {
  /// A batch of variable-length sequences, as flash attention takes it: span i of the queries attends to span i of the
  /// keys.
  struct SequenceBatch {
    Tensor query_begins, key_begins;  // [sequences + 1] int32 cumulative lengths
    int64_t max_queries = 0, max_keys = 0;
    bool causal = false;
  };

  /// A set of packed rows: contiguous, or listed in `indices`.
  struct RowSet {
    int64_t begin = 0, count = 0;
    Tensor indices = {};  // [count] int64; undefined if the rows are contiguous

    RowSet() = default;
    RowSet(const std::vector<int64_t>& rows, at::Device device)
        : begin(rows.front()), count(static_cast<int64_t>(rows.size())) {
      for (int64_t i = 0; i < count; ++i)
        if (rows[i] != begin + i) {
          indices = to_device_async(at::tensor(rows, at::kLong), device);
          break;
        }
    }
    Tensor select(const Tensor& x, int64_t dim = 0) const {
      return indices.defined() ? x.index_select(dim, indices) : x.narrow(dim, begin, count);
    }
    void add_to(const Tensor& x, const Tensor& added) const {
      if (indices.defined())
        x.index_add_(0, indices, added);  // The indices are distinct.
      else
        x.narrow(0, begin, count).add_(added);
    }
  };

  SequenceBatch own;     // each segment, together with its prompt if they are adjacent
  SequenceBatch shared;  // attention of completions to prompts packed elsewhere
  // Rows of `shared`; empty if each prompt directly precedes its only completion.
  RowSet shared_queries = {}, shared_keys = {};
};

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Layout = PackedFlashAttention::Layout;
using SequenceBatch = Layout::SequenceBatch;
using RowSet = Layout::RowSet;

/// Builds a SequenceBatch on the host.
struct SequenceBatchBuilder {
  std::vector<int32_t> query_begins = {0}, key_begins = {0};
  int64_t max_queries = 0, max_keys = 0;

  void add(int64_t queries, int64_t keys) {
    query_begins.push_back(query_begins.back() + static_cast<int32_t>(queries));
    key_begins.push_back(key_begins.back() + static_cast<int32_t>(keys));
    max_queries = std::max(max_queries, queries);
    max_keys = std::max(max_keys, keys);
  }
  SequenceBatch build(at::Device device, bool causal) const {
    const auto tensor = [&](const std::vector<int32_t>& begins) {
      return to_device_async(at::tensor(begins, at::kInt), device);
    };
    return {tensor(query_begins), tensor(key_begins), max_queries, max_keys, causal};
  }
};

/// Lets autograd keep the layout for the backward pass.
struct SavedLayout : torch::CustomClassHolder {
  explicit SavedLayout(std::shared_ptr<const Layout> saved) : layout(std::move(saved)) {}
  std::shared_ptr<const Layout> layout;
};

/// The outputs [N, heads, D] and log-sum-exps [heads, N] float32 of a pass, and the operator's outputs that its
/// backward needs, with PyTorch's names.
struct FlashResult {
  Tensor out, log_sum, rng_state, unused;
};

FlashResult flash_forward(const SequenceBatch& batch, double scale, const Tensor& q, const Tensor& k, const Tensor& v) {
  auto [out, log_sum, rng_state, unused, mask] = at::_flash_attention_forward(
      q, k, v, batch.query_begins, batch.key_begins, batch.max_queries, batch.max_keys, /*dropout_p=*/0.0, batch.causal,
      /*return_debug_mask=*/false, scale);
  return {out, log_sum, rng_state, unused};
}

/// Gradients of q, k and v through the keys of one pass. They are exact, because `merged` has the outputs and
/// log-sum-exps over all keys of each query.
std::tuple<Tensor, Tensor, Tensor> flash_backward(const SequenceBatch& batch, double scale, const Tensor& dout,
                                                  const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const FlashResult& merged) {
  return at::_flash_attention_backward(dout, q, k, v, merged.out, merged.log_sum, batch.query_begins, batch.key_begins,
                                       batch.max_queries, batch.max_keys, /*dropout_p=*/0.0, batch.causal,
                                       merged.rng_state, merged.unused, scale);
}

/// Merges the attention of `rows` to their shared prompts into `own`.
void merge(const FlashResult& own, const FlashResult& shared, const RowSet& rows) {
  launch_on_cuda(own.out, "merging attention", [&](auto stream) {
    return cuda::merge_attention(own.out.mutable_data_ptr(), own.log_sum.mutable_data_ptr<float>(), own.out.size(0),
                                 rows.begin, rows.indices.defined() ? rows.indices.const_data_ptr<int64_t>() : nullptr,
                                 shared.out.const_data_ptr(), shared.log_sum.const_data_ptr<float>(),
                                 float_type(own.out), rows.count, own.out.size(1), own.out.size(2), stream);
  });
}

struct PackedFlash : torch::autograd::Function<PackedFlash> {
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                        const std::shared_ptr<const Layout>& layout) {
    FlashResult own = flash_forward(layout->own, scale, q, k, v);
    const RowSet &queries = layout->shared_queries, &keys = layout->shared_keys;
    if (queries.count > 0)
      merge(own, flash_forward(layout->shared, scale, queries.select(q), keys.select(k), keys.select(v)), queries);
    context->save_for_backward({q, k, v, own.out, own.log_sum, own.rng_state, own.unused});
    context->saved_data["layout"] = c10::IValue::make_capsule(c10::make_intrusive<SavedLayout>(layout));
    context->saved_data["scale"] = scale;
    return own.out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], dout = gradients[0].contiguous();
    const FlashResult merged{.out = saved[3], .log_sum = saved[4], .rng_state = saved[5], .unused = saved[6]};
    const double scale = context->saved_data["scale"].toDouble();
    const auto holder = context->saved_data["layout"].toCapsule();
    const Layout& layout = *static_cast<const SavedLayout&>(*holder).layout;
    const auto [dq, dk, dv] = flash_backward(layout.own, scale, dout, q, k, v, merged);
    if (layout.shared_queries.count > 0) {
      const RowSet &queries = layout.shared_queries, &keys = layout.shared_keys;
      const FlashResult selected{queries.select(merged.out), queries.select(merged.log_sum, 1).contiguous(),
                                 merged.rng_state, merged.unused};
      const auto [shared_dq, shared_dk, shared_dv] = flash_backward(
          layout.shared, scale, queries.select(dout), queries.select(q), keys.select(k), keys.select(v), selected);
      queries.add_to(dq, shared_dq);
      keys.add_to(dk, shared_dk);
      keys.add_to(dv, shared_dv);
    }
    return {dq, dk, dv, Tensor(), Tensor()};
  }
};

/// Returns whether a prompt has one completion, which directly follows it. They are one causal sequence then.
bool is_one_sequence(const std::vector<const Segment*>& completions) {
  const Segment& first = *completions.front();
  return completions.size() == 1 && first.prefix_begin + first.prefix_length == first.begin;
}

}  // namespace

PackedFlashAttention::PackedFlashAttention(const std::vector<Segment>& segments, at::Device device) {
  std::map<int64_t, std::vector<const Segment*>> completions_of;  // keyed by the begin of their prompt
  for (const Segment& segment : segments)
    if (segment.length > 0 && segment.prefix_length > 0) completions_of[segment.prefix_begin].push_back(&segment);
  SequenceBatchBuilder own, shared;
  std::vector<int64_t> query_rows, key_rows;
  const auto add_rows = [](std::vector<int64_t>& rows, int64_t begin, int64_t count) {
    for (int64_t i = 0; i < count; ++i) rows.push_back(begin + i);
  };
  for (const auto& [begin, completions] : completions_of) {
    if (is_one_sequence(completions)) continue;
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
    const auto found = completions_of.find(segment.begin);
    int64_t length = segment.length;
    if (segment.prefix_length > 0 && is_one_sequence(completions_of.at(segment.prefix_begin)))
      continue;  // added with its prompt
    if (segment.prefix_length == 0 && found != completions_of.end() && is_one_sequence(found->second))
      length += found->second.front()->length;
    own.add(length, length);
  }
  Layout layout{.own = own.build(device, /*causal=*/true), .shared = {}};
  if (!query_rows.empty()) {
    layout.shared = shared.build(device, /*causal=*/false);
    layout.shared_queries = RowSet(query_rows, device);
    layout.shared_keys = RowSet(key_rows, device);
  }
  layout_ = std::make_shared<const Layout>(std::move(layout));
}

bool PackedFlashAttention::supports(const AttentionConfig& attention, at::Device device, at::ScalarType type,
                                    int64_t width) {
  return device.is_cuda() && is_narrow(type) && attention.softcap == 0 && attention.window == 0 && width % 8 == 0 &&
         width <= 256;
}

Tensor PackedFlashAttention::operator()(const AttentionConfig& attention, const Tensor& query, const Tensor& key,
                                        const Tensor& value) const {
  return PackedFlash::apply(query.contiguous(), key.contiguous(), value.contiguous(), attention.scale, layout_);
}

}  // namespace keel
