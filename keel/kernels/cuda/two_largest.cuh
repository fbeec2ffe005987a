#pragma once

namespace keel::cuda {

struct TwoLargest {
  float first, second;
};

__device__ inline TwoLargest larger_two(TwoLargest a, TwoLargest b) {
  return a.first >= b.first ? TwoLargest{a.first, fmaxf(a.second, b.first)}
                            : TwoLargest{b.first, fmaxf(b.second, a.first)};
}

}  // namespace keel::cuda
