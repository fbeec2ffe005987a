#include "keel/objective/regions/sequence_reducer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "keel/core/error.h"

namespace keel {
namespace {

Tensor mask_or_all_valid(const LossInputs& p) {
  return p.mask.defined() ? p.mask : at::ones_like(p.logp, p.logp.options().dtype(at::kBool));
}

constexpr auto kAdd = [](const Tensor& x, const Tensor& y) { return x + y; };
constexpr auto kMaximum = [](const Tensor& x, const Tensor& y) { return at::maximum(x, y); };

}  // namespace

std::vector<int64_t> sequence_lengths(const LossInputs& p) {
  return p.lengths.empty() ? std::vector<int64_t>{p.logp.numel()} : p.lengths;
}

SequenceReducer::SequenceReducer(const LossInputs& p) : SequenceReducer(sequence_lengths(p), mask_or_all_valid(p)) {}

SequenceReducer::SequenceReducer(const std::vector<int64_t>& lengths, const Tensor& mask)
    : masked_(mask.logical_not()) {
  int64_t end = 0;
  std::vector<int64_t> begins, ends;
  for (const int64_t length : lengths) {
    begins.push_back(end);
    end += length;
    ends.push_back(length > 0 ? end : 0);
    max_length_ = std::max(max_length_, length);
  }
  if (end != mask.numel())
    fail(ExitCode::kInternal, "the lengths of the sequences do not add up to their ", mask.numel(), " tokens");
  const auto on_device = [&](const std::vector<int64_t>& x) { return at::tensor(x, at::kLong).to(mask.device()); };
  begins_ = on_device(begins);
  ends_ = on_device(ends);
  const Tensor sizes = on_device(lengths);
  sequence_ = at::repeat_interleave(sizes, std::optional<int64_t>(mask.numel()));
  position_ = at::arange(mask.numel(), sequence_.options()) - broadcast(begins_);
  const Tensor valid = at::cat({at::zeros({1}, sizes.options()), mask.cumsum(0)});  // integers: differences are exact
  counts_ = valid.index_select(0, begins_ + sizes) - valid.index_select(0, begins_);
}

/// An inclusive scan over each sequence with `combine`, where masked tokens count as `fill`. Each pass doubles the
/// number of tokens that are combined (Hillis-Steele).
template <class Combine>
Tensor SequenceReducer::scan(const Tensor& tokens, double fill, Combine combine) const {
  const Tensor result = tokens.masked_fill(masked_, fill);
  for (int64_t distance = 1; distance < max_length_; distance *= 2) {
    const int64_t rest = result.numel() - distance;
    const Tensor later = result.narrow(0, distance, rest), earlier = result.narrow(0, 0, rest);
    later.copy_(at::where(position_.narrow(0, distance, rest) >= distance, combine(later, earlier), later));
  }
  return result;
}

/// The value at the last token of each sequence. [N] to [S].
Tensor SequenceReducer::at_ends(const Tensor& tokens, double fill) const {
  return at::cat({at::full({1}, fill, tokens.options()), tokens}).index_select(0, ends_);
}

Tensor SequenceReducer::sum(const Tensor& tokens) const { return at_ends(scan(tokens, 0, kAdd), 0); }

Tensor SequenceReducer::mean(const Tensor& tokens) const { return sum(tokens) / counts_.clamp_min(1); }

Tensor SequenceReducer::max(const Tensor& tokens) const {
  return at_ends(scan(tokens, -kUnlimited, kMaximum), -kUnlimited);
}

Tensor SequenceReducer::exclusive_cumsum(const Tensor& tokens) const {
  return scan(tokens, 0, kAdd).roll(1).masked_fill(position_ == 0, 0);
}

Tensor SequenceReducer::quantile(const Tensor& tokens, double quantile) const {
  // Sorts by value, then stably by sequence: this sorts each sequence in place.
  const Tensor x = tokens.masked_fill(masked_, kUnlimited), by_value = x.argsort();
  const Tensor by_sequence = sequence_.index_select(0, by_value).argsort(/*stable=*/true);
  const Tensor sorted = x.index_select(0, by_value.index_select(0, by_sequence));
  const Tensor position = quantile * (counts_ - 1).clamp_min(0).to(at::kDouble);
  // An empty sequence can begin after the last token.
  const Tensor padded = at::cat({sorted, at::zeros({1}, sorted.options())});
  const auto value_at = [&](const Tensor& index) { return padded.index_select(0, begins_ + index.to(at::kLong)); };
  const Tensor below = value_at(position.floor()), above = value_at(position.ceil());
  const Tensor result = below + (above - below) * (position - position.floor()).to(x.scalar_type());
  return result.masked_fill(counts_ == 0, 0);
}

}  // namespace keel
