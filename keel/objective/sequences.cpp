#include "keel/objective/sequences.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "keel/core/error.h"

namespace keel {

Sequences::Sequences(const TokenPolicy& p) {
  const int64_t total = p.logp.numel();
  const std::vector<int64_t> lengths = p.lengths.empty() ? std::vector<int64_t>{total} : p.lengths;
  if (std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) != total)
    fail(ExitCode::kInternal, "the lengths of the sequences do not add up to their ", total, " tokens");
  sequences_ = static_cast<int64_t>(lengths.size());
  longest_ = *std::max_element(lengths.begin(), lengths.end());
  std::vector<int64_t> sequence, place;
  for (int64_t s = 0; s < sequences_; ++s) {
    for (int64_t t = 0; t < lengths[s]; ++t) {
      sequence.push_back(s);
      place.push_back(s * longest_ + t);
    }
  }
  sequence_ = at::tensor(sequence, at::kLong).to(p.logp.device());
  place_ = at::tensor(place, at::kLong).to(p.logp.device());
  const Tensor mask = p.mask.defined() ? p.mask : at::ones_like(p.logp, p.logp.options().dtype(at::kBool));
  valid_ = at::zeros({sequences_ * longest_}, mask.options()).index_copy(0, place_, mask).view({sequences_, longest_});
  counts_ = valid_.sum(1).to(p.logp.scalar_type());
}

Tensor Sequences::rows(const Tensor& tokens) const {
  const Tensor flat = at::zeros({sequences_ * longest_}, tokens.options()).index_copy(0, place_, tokens);
  return flat.view({sequences_, longest_}).masked_fill(valid_.logical_not(), 0);
}

Tensor Sequences::tokens(const Tensor& rows) const { return rows.flatten().index_select(0, place_); }

Tensor Sequences::sum(const Tensor& tokens) const { return rows(tokens).sum(1); }
Tensor Sequences::mean(const Tensor& tokens) const { return sum(tokens) / counts_.clamp_min(1); }
Tensor Sequences::max(const Tensor& tokens) const {
  if (longest_ == 0) return at::zeros({sequences_}, tokens.options());
  return rows(tokens).masked_fill(valid_.logical_not(), -kUnlimited).amax(1);
}

}  // namespace keel
