#pragma once

#include <vector>

#include "keel/objective/regions/loss_inputs.h"

namespace keel {

/// The length of each sequence; without `lengths` all tokens are one sequence.
std::vector<int64_t> sequence_lengths(const LossInputs& inputs);

/// Segment reductions over the valid tokens of concatenated sequences (or over the sequences of groups).
///
/// They use only elementwise operations, so results are deterministic: the bits of one sequence depend neither on other
/// sequences (even with NaN or infinity in them) nor on the number of threads. Memory is O(N + S) for any lengths.
class SequenceReducer {
 public:
  explicit SequenceReducer(const LossInputs& inputs);
  SequenceReducer(const std::vector<int64_t>& lengths, const Tensor& mask);  // mask: [N] bool

  // [N] to [S]
  Tensor sum(const Tensor& tokens) const;
  Tensor mean(const Tensor& tokens) const;                       // 0 without valid tokens
  Tensor max(const Tensor& tokens) const;                        // -inf without valid tokens
  Tensor quantile(const Tensor& tokens, double quantile) const;  // linear interpolation; 0 without valid tokens

  Tensor exclusive_cumsum(const Tensor& tokens) const;  // [N] to [N]: sum over the valid tokens before each one
  Tensor broadcast(const Tensor& per_sequence) const { return per_sequence.index_select(0, sequence_); }  // [S] to [N]

  const Tensor& counts() const { return counts_; }  // [S] number of valid tokens, integer

 private:
  template <class Combine>
  Tensor scan(const Tensor& tokens, double fill, Combine combine) const;
  Tensor at_ends(const Tensor& tokens, double fill) const;

  int64_t max_length_ = 0;
  Tensor masked_, sequence_, position_;  // [N] inverted mask; sequence index; position in the sequence, from 0
  Tensor begins_, ends_;                 // [S] first token; last token + 1, or 0 if empty
  Tensor counts_;
};

}  // namespace keel
