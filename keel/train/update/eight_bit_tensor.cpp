#include "keel/train/update/eight_bit_tensor.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace keel {

Tensor dynamic_map(bool is_signed) {
  constexpr int kExponents = 7;
  std::vector<float> numbers{0, 1};
  for (int exponent = 0; exponent < kExponents; ++exponent) {
    const int count = 1 << (is_signed ? exponent : exponent + 1);  // the larger the numbers, the more of them
    const double unit = std::pow(10, exponent - (kExponents - 1));
    for (int i = 0; i < count; ++i) {  // the middles of equal parts of [0.1, 1]
      const double number = unit * (0.1 + 0.9 * (i + 0.5) / count);
      numbers.push_back(static_cast<float>(number));
      if (is_signed) numbers.push_back(static_cast<float>(-number));
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return at::tensor(numbers);
}

EightBitTensor::EightBitTensor(int64_t count, bool is_signed, at::Device device)
    : count_(count), map_(dynamic_map(is_signed).to(device)) {
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  middles_ = (map_.narrow(0, 0, map_.size(0) - 1) + map_.narrow(0, 1, map_.size(0) - 1)) / 2;
  codes_ = at::full({blocks, kBlock}, is_signed ? 127 : 0, map_.options().dtype(at::kByte));  // of 0
  largest_ = at::zeros({blocks}, map_.options());
}

Tensor EightBitTensor::read(int64_t begin, int64_t count) const {
  const int64_t first = begin / kBlock, blocks = (count + kBlock - 1) / kBlock;
  const Tensor codes = codes_.narrow(0, first, blocks).view({-1}).to(at::kInt);
  const Tensor shares = map_.index_select(0, codes).view({blocks, kBlock});
  return (shares * largest_.narrow(0, first, blocks).unsqueeze(1)).view({-1}).narrow(0, 0, count);
}

void EightBitTensor::write(int64_t begin, const Tensor& numbers) {
  const int64_t first = begin / kBlock, blocks = (numbers.size(0) + kBlock - 1) / kBlock;
  const Tensor whole = at::constant_pad_nd(numbers, {0, blocks * kBlock - numbers.size(0)}).view({blocks, kBlock});
  const Tensor largest = whole.abs().amax(1);
  const Tensor divisor = largest.masked_fill(largest == 0, 1).unsqueeze(1);
  codes_.narrow(0, first, blocks).copy_(at::bucketize(whole / divisor, middles_, /*out_int32=*/true));
  largest_.narrow(0, first, blocks).copy_(largest);
}

}  // namespace keel
