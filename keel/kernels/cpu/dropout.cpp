#include "keel/kernels/cpu/dropout.h"

#include <algorithm>

namespace keel::cpu {

void drop_out(const float* x, const int64_t* sequences, const int64_t* positions, int64_t rows, int64_t width,
              const DropoutNoise& noise, float* y) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width)
    for (int64_t begin = 0; begin < width; begin += 4) {
      const DropoutFactors factors(noise, static_cast<uint64_t>(sequences[row]), static_cast<uint32_t>(positions[row]),
                                   static_cast<uint32_t>(begin / 4));
      const int64_t end = std::min(begin + 4, width);
      for (int64_t i = begin; i < end; ++i) y[i] = x[i] * factors.of[i - begin];
    }
}

}  // namespace keel::cpu
