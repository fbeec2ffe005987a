#include "keel/objective/value_loss.h"

#include <ATen/ATen.h>

namespace keel {

ValueLoss value_loss(const Tensor& values, const Tensor& old_values, const Tensor& returns, double clip) {
  const Tensor bounded = at::clamp(values, old_values - clip, old_values + clip);
  const Tensor error = values - returns, free = error.square(), held = (bounded - returns).square();
  const Tensor clipped = held > free;
  return {at::maximum(free, held) / 2, error.masked_fill(clipped, 0), clipped};
}

}  // namespace keel
