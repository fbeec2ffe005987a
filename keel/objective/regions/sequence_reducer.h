#pragma once

#include <vector>

#include "keel/objective/regions/loss_inputs.h"

namespace keel {

/// The tokens of each sequence; all are one where nothing was said.
std::vector<int64_t> sequence_lengths(const LossInputs& policy);

/// Sums and the like over the valid tokens of each sequence, tokens lying one after another without padding. (What is
/// said of tokens and their sequences holds for sequences and their groups too.)
///
/// All of it is made of elementwise steps. So it takes memory for N + S numbers however unequal the lengths are; what a
/// sequence holds, infinite or not, never touches another; and its bits depend on nothing else: not on its neighbours,
/// nor on threads, as sums that a library divides among them and scattered additions do.
class SequenceReducer {
 public:
  explicit SequenceReducer(const LossInputs& policy);
  SequenceReducer(const std::vector<int64_t>& lengths, const Tensor& mask);  // mask: [N] bool

  // [N] to [S]
  Tensor sum(const Tensor& tokens) const;
  Tensor mean(const Tensor& tokens) const;                       // of no valid token: 0
  Tensor max(const Tensor& tokens) const;                        // of no valid token: not above anything
  Tensor quantile(const Tensor& tokens, double quantile) const;  // interpolated linearly; of no valid token: 0

  Tensor exclusive_cumsum(const Tensor& tokens) const;  // [N] to [N]: over the valid tokens before each one
  Tensor broadcast(const Tensor& per_sequence) const { return per_sequence.index_select(0, sequence_); }  // [S] to [N]

  const Tensor& counts() const { return counts_; }  // [S] valid tokens, integers

 private:
  template <class Combine>
  Tensor scan(const Tensor& tokens, double otherwise, Combine combine) const;
  Tensor at_ends(const Tensor& tokens, double otherwise) const;

  int64_t longest_ = 0;
  Tensor hidden_, sequence_, place_;  // [N] what the mask hides; the token's sequence; its place there, from 0 on
  Tensor begins_, ends_;              // [S] first token; 1 + the last token, 0 where there is none
  Tensor counts_;
};

}  // namespace keel
