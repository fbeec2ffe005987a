#pragma once

#include "keel/objective/token_policy.h"

namespace keel {

/// Sums and means over the valid tokens of each sequence. Tokens are laid out as rows before they are added: unlike
/// scattered additions, this gives the same bits every time on every device.
class Sequences {
 public:
  explicit Sequences(const TokenPolicy& policy);

  /// [N] to [S, T], 0 where there is no token or the mask hides it.
  Tensor rows(const Tensor& tokens) const;
  /// [S, T] to [N], and [S] to [N].
  Tensor tokens(const Tensor& rows) const;
  Tensor spread(const Tensor& per_sequence) const { return per_sequence.index_select(0, sequence_); }

  Tensor sum(const Tensor& tokens) const;
  Tensor mean(const Tensor& tokens) const;
  Tensor max(const Tensor& tokens) const;  // of no valid token: not above anything

  const Tensor& counts() const { return counts_; }  // [S] valid tokens
  const Tensor& valid() const { return valid_; }    // [S, T] bool

 private:
  int64_t sequences_ = 0, longest_ = 0;
  Tensor sequence_, place_;  // [N] its sequence; its place in the flattened rows
  Tensor valid_, counts_;
};

}  // namespace keel
