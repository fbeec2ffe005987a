#pragma once

#include <vector>

#include "keel/core/tensor/tensor.h"
#include "keel/ops/attention_rule.h"

namespace keel {

/// The keys and values of sequences that are being decoded together. Sequences are aligned at their ends: slot t holds
/// the newest token of every sequence at once, so a decode step writes one slice and only prompts of unequal length
/// need a mask.
class KeyValueStore {
 public:
  /// `starts[s]` is the first slot that sequence s uses; `first` slots are already planned for the prompts.
  KeyValueStore(int64_t layers, int64_t slots, const std::vector<int64_t>& starts, int64_t kv_heads, int64_t width,
                at::TensorOptions options);

  /// Writes a prompt's keys and values [P, kv_heads, D] into the sequences [first, first + count), ending before `end`.
  void write_prompt(int64_t layer, int64_t first, int64_t count, int64_t end, const Tensor& key, const Tensor& value);

  /// Writes slot `slot` of every sequence (key, value [S, kv_heads, D]) and attends the queries [S, heads, D] to all
  /// slots up to it, as the layer's rule says.
  Tensor attend(int64_t layer, const AttentionRule& rule, int64_t slot, const Tensor& query, const Tensor& key,
                const Tensor& value);

  /// Keeps only these sequences, in this order.
  void keep(const Tensor& rows);

 private:
  std::vector<Tensor> keys_, values_;  // per layer [S, kv_heads, slots, D]
  Tensor mask_;                        // [S, 1, 1, slots] float, undefined when all sequences start at slot 0
};

}  // namespace keel
