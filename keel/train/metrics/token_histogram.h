#pragma once

#include <optional>
#include <vector>

#include "keel/core/histogram.h"
#include "keel/core/tensor/tensor.h"

namespace keel {

/// Counts the numbers of a step's tokens between given limits, on the device; read once.
class TokenHistogram {
 public:
  /// In rising order. What is above the last has a bucket of its own.
  explicit TokenHistogram(std::vector<double> limits) : limits_(std::move(limits)) {}

  /// Of |pi - mu| and its kin, which are 0 or above: three limits for each power of ten from 1e-8 to 100.
  static TokenHistogram of_divergences();
  /// Of pi / mu: the same steps away from 1, on either side of it.
  static TokenHistogram of_ratios();

  /// Numbers that are not finite are left out.
  void add(const Tensor& values);
  /// Nothing where there was no number.
  std::optional<Histogram> read() const;

 private:
  std::vector<double> limits_;
  Tensor edges_;               // the limits, where the numbers are
  Tensor counts_;              // [limits + 1] float64: whole numbers, whatever the order of addition
  Tensor sums_, least_, most_;  // [count, sum, sum of squares]; scalars
};

}  // namespace keel
