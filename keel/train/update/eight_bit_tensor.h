#pragma once

#include <cstdint>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// The 256 numbers that the codes of a block stand for, ascending, the largest of which is 1: dynamic tree quantisation
/// (arXiv 2110.02861), in which small numbers have fewer digits and reach down to about 1e-7. float32 [256].
Tensor dynamic_map(bool is_signed);

/// Numbers in 8 bits each: a code for every number, and for every 256 of them the largest magnitude, in float32. It
/// owns codes and magnitudes.
class EightBitTensor {
 public:
  static constexpr int64_t kBlock = 256;

  EightBitTensor(int64_t count, bool is_signed, at::Device device);

  int64_t count() const { return count_; }

  /// The numbers from `begin` on, a multiple of kBlock; float32 [count].
  Tensor read(int64_t begin, int64_t count) const;
  /// Each is stored as the nearest that its block has; up to the end of a block, or of all.
  void write(int64_t begin, const Tensor& numbers);

  /// [blocks, kBlock] uint8 and [blocks] float32; what is copied into them holds.
  const Tensor& codes() const { return codes_; }
  const Tensor& largest() const { return largest_; }

 private:
  int64_t count_;
  Tensor map_, middles_;  // [256], [255]: where the nearest code changes
  Tensor codes_, largest_;
};

}  // namespace keel
