#include "keel/train/update/eight_bit_tensor.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace keel {

Tensor dynamic_map(bool is_signed) {
  constexpr int kExponents = 7;
  std::vector<float> values{0, 1};
  for (int exponent = 0; exponent < kExponents; ++exponent) {
    const int count = 1 << (is_signed ? exponent : exponent + 1);  // larger values are denser
    const double unit = std::pow(10, exponent - (kExponents - 1));
    for (int i = 0; i < count; ++i) {  // midpoints of `count` equal parts of [0.1, 1]
      const double value = unit * (0.1 + 0.9 * (i + 0.5) / count);
      values.push_back(static_cast<float>(value));
      if (is_signed) values.push_back(static_cast<float>(-value));
    }
  }
  std::sort(values.begin(), values.end());
  return at::tensor(values);
}

EightBitTensor::EightBitTensor(int64_t count, bool is_signed, at::Device device)
    : count_(count), codebook_(dynamic_map(is_signed).to(device)) {
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  boundaries_ = (codebook_.narrow(0, 0, codebook_.size(0) - 1) + codebook_.narrow(0, 1, codebook_.size(0) - 1)) / 2;
  codes_ = at::full({blocks, kBlock}, is_signed ? 127 : 0, codebook_.options().dtype(at::kByte));  // the code of 0
  absmax_ = at::zeros({blocks}, codebook_.options());
}

Tensor EightBitTensor::read(int64_t begin, int64_t count) const {
  const int64_t first = begin / kBlock, blocks = (count + kBlock - 1) / kBlock;
  const Tensor codes = codes_.narrow(0, first, blocks).view({-1}).to(at::kInt);
  const Tensor scaled = codebook_.index_select(0, codes).view({blocks, kBlock});
  return (scaled * absmax_.narrow(0, first, blocks).unsqueeze(1)).view({-1}).narrow(0, 0, count);
}

void EightBitTensor::write(int64_t begin, const Tensor& values) {
  const int64_t first = begin / kBlock, blocks = (values.size(0) + kBlock - 1) / kBlock;
  const Tensor padded = at::constant_pad_nd(values, {0, blocks * kBlock - values.size(0)}).view({blocks, kBlock});
  const Tensor absmax = padded.abs().amax(1);
  const Tensor divisor = absmax.masked_fill(absmax == 0, 1).unsqueeze(1);
  codes_.narrow(0, first, blocks).copy_(at::bucketize(padded / divisor, boundaries_, /*out_int32=*/true));
  absmax_.narrow(0, first, blocks).copy_(absmax);
}

}  // namespace keel
