#include "keel/objective/regions/sequence_reducer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "keel/core/error.h"

namespace keel {
namespace {

Tensor mask_of(const LossInputs& p) {
  return p.mask.defined() ? p.mask : at::ones_like(p.logp, p.logp.options().dtype(at::kBool));
}

constexpr auto kAdd = [](const Tensor& x, const Tensor& y) { return x + y; };
constexpr auto kLarger = [](const Tensor& x, const Tensor& y) { return at::maximum(x, y); };

}  // namespace

std::vector<int64_t> sequence_lengths(const LossInputs& p) {
  return p.lengths.empty() ? std::vector<int64_t>{p.logp.numel()} : p.lengths;
}

SequenceReducer::SequenceReducer(const LossInputs& p) : SequenceReducer(sequence_lengths(p), mask_of(p)) {}

SequenceReducer::SequenceReducer(const std::vector<int64_t>& lengths, const Tensor& mask)
    : hidden_(mask.logical_not()) {
  int64_t end = 0;
  std::vector<int64_t> begins, ends;
  for (const int64_t length : lengths) {
    begins.push_back(end);
    end += length;
    ends.push_back(length > 0 ? end : 0);
    longest_ = std::max(longest_, length);
  }
  if (end != mask.numel())
    fail(ExitCode::kInternal, "the lengths of the sequences do not add up to their ", mask.numel(), " tokens");
  const auto on_device = [&](const std::vector<int64_t>& x) { return at::tensor(x, at::kLong).to(mask.device()); };
  begins_ = on_device(begins);
  ends_ = on_device(ends);
  const Tensor sizes = on_device(lengths);
  sequence_ = at::repeat_interleave(sizes, std::optional<int64_t>(mask.numel()));
  place_ = at::arange(mask.numel(), sequence_.options()) - broadcast(begins_);
  const Tensor valid = at::cat({at::zeros({1}, sizes.options()), mask.cumsum(0)});  // integers: differences are exact
  counts_ = valid.index_select(0, begins_ + sizes) - valid.index_select(0, begins_);
}

/// For every token, `combine` over the tokens of its sequence up to it, `otherwise` standing for hidden ones. Each pass
/// doubles how far back a token has looked.
template <class Combine>
Tensor SequenceReducer::scan(const Tensor& tokens, double otherwise, Combine combine) const {
  const Tensor result = tokens.masked_fill(hidden_, otherwise);
  for (int64_t reach = 1; reach < longest_; reach *= 2) {
    const int64_t rest = result.numel() - reach;
    const Tensor later = result.narrow(0, reach, rest), earlier = result.narrow(0, 0, rest);
    later.copy_(at::where(place_.narrow(0, reach, rest) >= reach, combine(later, earlier), later));
  }
  return result;
}

/// The value at each sequence's last token. [N] to [S].
Tensor SequenceReducer::at_ends(const Tensor& tokens, double otherwise) const {
  return at::cat({at::full({1}, otherwise, tokens.options()), tokens}).index_select(0, ends_);
}

Tensor SequenceReducer::sum(const Tensor& tokens) const { return at_ends(scan(tokens, 0, kAdd), 0); }

Tensor SequenceReducer::mean(const Tensor& tokens) const { return sum(tokens) / counts_.clamp_min(1); }

Tensor SequenceReducer::max(const Tensor& tokens) const {
  return at_ends(scan(tokens, -kUnlimited, kLarger), -kUnlimited);
}

Tensor SequenceReducer::exclusive_cumsum(const Tensor& tokens) const {
  return scan(tokens, 0, kAdd).roll(1).masked_fill(place_ == 0, 0);
}

Tensor SequenceReducer::quantile(const Tensor& tokens, double quantile) const {
  // By value, then by sequence, which keeps the order within each: every sequence sorted, where it stands.
  const Tensor x = tokens.masked_fill(hidden_, kUnlimited), by_value = x.argsort();
  const Tensor by_sequence = sequence_.index_select(0, by_value).argsort(/*stable=*/true);
  const Tensor sorted = x.index_select(0, by_value.index_select(0, by_sequence));
  const Tensor position = quantile * (counts_ - 1).clamp_min(0).to(at::kDouble);
  // A sequence without tokens may begin behind the last one.
  const Tensor padded = at::cat({sorted, at::zeros({1}, sorted.options())});
  const auto at_place = [&](const Tensor& place) { return padded.index_select(0, begins_ + place.to(at::kLong)); };
  const Tensor below = at_place(position.floor()), above = at_place(position.ceil());
  const Tensor result = below + (above - below) * (position - position.floor()).to(x.scalar_type());
  return result.masked_fill(counts_ == 0, 0);
}

}  // namespace keel
