#pragma once

#include <cstdint>

#include "keel/core/tensor/tensor.h"

namespace keel {

/// The codebook of dynamic tree quantization (arXiv 2110.02861), ascending, with maximum 1: float32 [256]. Values near
/// 0 have fewer digits, down to about 1e-7.
Tensor dynamic_map(bool is_signed);

/// A flat tensor quantized blockwise to 8 bits, as in bitsandbytes: one code per element and a float32 absmax per
/// block. It owns both.
class EightBitTensor {
 public:
  static constexpr int64_t kBlock = 256;

  EightBitTensor(int64_t count, bool is_signed, at::Device device);

  int64_t count() const { return count_; }

  /// Dequantizes the elements from `begin`, a multiple of kBlock: float32 [count].
  Tensor read(int64_t begin, int64_t count) const;
  /// Quantizes to the nearest codes. `values` must end at the end of a block or of the tensor.
  void write(int64_t begin, const Tensor& values);

  /// [blocks, kBlock] uint8 and [blocks] float32. Both are the storage itself: load() copies into them.
  const Tensor& codes() const { return codes_; }
  const Tensor& absmax() const { return absmax_; }

 private:
  int64_t count_;
  Tensor codebook_, boundaries_;  // [256], [255] midpoints between neighbouring codebook values
  Tensor codes_, absmax_;
};

}  // namespace keel
