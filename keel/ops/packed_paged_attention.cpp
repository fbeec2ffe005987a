#include "keel/ops/packed_paged_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "keel/core/error.h"

namespace keel {
namespace {

/// Assigns each segment its own blocks, in order, and gives each token its keys.
PagedAttention build_paged_attention(const std::vector<Segment>& segments, int64_t tokens, at::Device device) {
  std::vector<PagedRow> rows(tokens);
  std::vector<int32_t> tables;
  std::map<int64_t, int32_t> table_of;  // keyed by the begin of a segment
  for (const Segment& segment : segments) {
    if (segment.length == 0) continue;
    const auto own = static_cast<int32_t>(tables.size());
    tables.resize(tables.size() + (segment.length + kBlockTokens - 1) / kBlockTokens);
    table_of[segment.begin] = own;
    int32_t prefix = 0;
    if (segment.prefix_length > 0) {
      const auto found = table_of.find(segment.prefix_begin);
      if (found == table_of.end()) fail(ExitCode::kInternal, "a segment comes before its prefix");
      prefix = found->second;
    }
    for (int64_t i = 0; i < segment.length; ++i)
      rows[segment.begin + i] = {.prompt_table = prefix,
                                 .prompt_keys = static_cast<int32_t>(segment.prefix_length),
                                 .own_table = own,
                                 .own_keys = static_cast<int32_t>(i + 1)};
  }
  std::iota(tables.begin(), tables.end(), 0);
  return PagedAttention(rows, tables, device, /*deterministic=*/true);
}

/// Replaces the value of a tensor and keeps its gradient.
struct ReplaceValue : torch::autograd::Function<ReplaceValue> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor&, const Tensor& value) {
    return value.detach();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0], Tensor()};
  }
};

}  // namespace

PackedPagedAttention::PackedPagedAttention(const std::vector<Segment>& segments, int64_t tokens, at::Device device,
                                           PackedAttentionFunction reference)
    : reference_(std::move(reference)), paged_(build_paged_attention(segments, tokens, device)) {}

Tensor PackedPagedAttention::operator()(const AttentionConfig& attention, const Tensor& query, const Tensor& key,
                                        const Tensor& value) const {
  const int64_t kv_heads = key.size(1), head_dim = key.size(2);
  Tensor output;
  {
    const at::NoGradGuard no_grad;
    const std::vector<int64_t> shape{paged_.table_size(), kv_heads, kBlockTokens * head_dim};
    const KvCacheLayer blocks{at::empty(shape, key.options()), at::empty(shape, key.options())};
    output = paged_.attend(blocks, attention, {query, key, value});
  }
  const bool needs_grad = query.requires_grad() || key.requires_grad() || value.requires_grad();
  if (!needs_grad || !at::GradMode::is_enabled()) return output;
  return ReplaceValue::apply(reference_(attention, query, key, value), output);
}

}  // namespace keel
