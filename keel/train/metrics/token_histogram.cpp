#include "keel/train/metrics/token_histogram.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace keel {
namespace {

/// 1, 2 and 5 times each power of ten, rising, as a person would write them.
std::vector<double> round_numbers(int first_power, int last_power) {
  std::vector<double> numbers;
  for (int power = first_power; power <= last_power; ++power)
    for (const int digit : {1, 2, 5}) {
      const double scale = std::pow(10.0, std::abs(power));
      numbers.push_back(power < 0 ? digit / scale : digit * scale);
    }
  return numbers;
}

}  // namespace

TokenHistogram TokenHistogram::of_divergences() { return TokenHistogram(round_numbers(-8, 1)); }

TokenHistogram TokenHistogram::of_ratios() {
  std::vector<double> limits = round_numbers(-8, -1);
  limits.pop_back();  // 0.5, which is 1 - 0.5
  const std::vector<double> away = round_numbers(-4, -1);
  for (auto number = away.rbegin(); number != away.rend(); ++number) limits.push_back(1 - *number);
  limits.push_back(1);
  for (const double number : away) limits.push_back(1 + number);
  for (const double number : round_numbers(0, 8))
    if (number > limits.back()) limits.push_back(number);
  return TokenHistogram(std::move(limits));
}

void TokenHistogram::add(const Tensor& values) {
  const at::NoGradGuard no_grad;
  if (values.numel() == 0) return;
  const Tensor finite = values.isfinite(), numbers = values.to(at::kDouble).masked_fill(finite.logical_not(), 0);
  const auto options = numbers.options();
  if (!counts_.defined()) {
    edges_ = at::tensor(limits_, at::kDouble).to(numbers.device());
    counts_ = at::zeros({std::ssize(limits_) + 1}, options);
    sums_ = at::zeros({3}, options);
    least_ = at::full({}, std::numeric_limits<double>::infinity(), options);
    most_ = -least_;
  }
  counts_.index_add_(0, at::bucketize(numbers, edges_), finite.to(at::kDouble));
  sums_ += at::stack({finite.sum(at::kDouble), numbers.sum(), numbers.square().sum()});
  const Tensor outside = finite.logical_not();
  least_ = at::minimum(least_, numbers.masked_fill(outside, std::numeric_limits<double>::infinity()).min());
  most_ = at::maximum(most_, numbers.masked_fill(outside, -std::numeric_limits<double>::infinity()).max());
}

std::optional<Histogram> TokenHistogram::read() const {
  if (!counts_.defined()) return std::nullopt;
  const Tensor all = at::cat({counts_, sums_, least_.view({1}), most_.view({1})}).cpu();
  const std::vector<double> read(all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel());
  const auto rest = read.begin() + std::ssize(limits_) + 1;
  if (rest[0] == 0) return std::nullopt;
  Histogram histogram{.count = static_cast<int64_t>(rest[0]),
                      .sum = rest[1],
                      .sum_of_squares = rest[2],
                      .smallest = rest[3],
                      .largest = rest[4]};
  const auto is_filled = [](double count) { return count > 0; };
  const auto first = std::find_if(read.begin(), rest, is_filled);
  const auto end = std::find_if(std::reverse_iterator(rest), read.rend(), is_filled).base();
  for (auto count = first; count != end; ++count) {
    const auto bucket = static_cast<size_t>(count - read.begin());
    histogram.limits.push_back(bucket < limits_.size() ? limits_[bucket] : histogram.largest);
    histogram.counts.push_back(static_cast<int64_t>(*count));
  }
  return histogram;
}

}  // namespace keel
