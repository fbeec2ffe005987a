#include "keel/rollout/key_value_store.h"

#include <ATen/ATen.h>

#include <limits>

#include "keel/ops/lm_head.h"

namespace keel {

KeyValueStore::KeyValueStore(int64_t layers, int64_t slots, const std::vector<int64_t>& starts, int64_t kv_heads,
                             int64_t width, at::TensorOptions options) {
  const int64_t sequences = static_cast<int64_t>(starts.size());
  for (int64_t layer = 0; layer < layers; ++layer) {
    // Zeros, not garbage: a masked slot still meets the softmax's 0, and 0 * NaN would be NaN.
    keys_.push_back(at::zeros({sequences, kv_heads, slots, width}, options));
    values_.push_back(at::zeros({sequences, kv_heads, slots, width}, options));
  }
  if (std::all_of(starts.begin(), starts.end(), [](int64_t start) { return start == 0; })) return;
  const Tensor first = at::tensor(starts, at::kLong).view({sequences, 1});
  const Tensor hidden = at::arange(slots, at::kLong).view({1, slots}) < first;
  mask_ = at::zeros({sequences, slots}, at::kFloat)
              .masked_fill_(hidden, -std::numeric_limits<float>::infinity())
              .view({sequences, 1, 1, slots})
              .to(options.device());
}

void KeyValueStore::write_prompt(int64_t layer, int64_t first, int64_t count, int64_t end, const Tensor& key,
                                 const Tensor& value) {
  const int64_t length = key.size(0);
  const auto write = [&](Tensor& store, const Tensor& x) {  // x [P, kv_heads, D]
    store.narrow(0, first, count).narrow(2, end - length, length).copy_(x.transpose(0, 1).unsqueeze(0));
  };
  write(keys_[layer], key);
  write(values_[layer], value);
}

Tensor KeyValueStore::attend(int64_t layer, const AttentionRule& rule, int64_t slot, const Tensor& query,
                             const Tensor& key, const Tensor& value) {
  keys_[layer].select(2, slot).copy_(key);
  values_[layer].select(2, slot).copy_(value);
  const int64_t sequences = query.size(0), heads = query.size(1), kv_heads = key.size(1), width = query.size(2);
  const int64_t first = rule.window > 0 ? std::max<int64_t>(slot + 1 - rule.window, 0) : 0, count = slot + 1 - first;
  const Tensor k = keys_[layer].narrow(2, first, count), v = values_[layer].narrow(2, first, count);
  // The heads that share a key-value head are the rows of one small matrix: no key is repeated.
  const Tensor q = query.view({sequences, kv_heads, heads / kv_heads, width});
  Tensor scores = softcapped(at::matmul(q, k.transpose(2, 3)).mul_(rule.scale), rule.softcap);
  if (mask_.defined()) scores.add_(mask_.narrow(3, first, count));
  return at::matmul(at::softmax(scores, -1), v).view({sequences, heads, width});
}

void KeyValueStore::keep(const Tensor& rows) {
  for (Tensor& key : keys_) key = key.index_select(0, rows);
  for (Tensor& value : values_) value = value.index_select(0, rows);
  if (mask_.defined()) mask_ = mask_.index_select(0, rows);
}

}  // namespace keel
