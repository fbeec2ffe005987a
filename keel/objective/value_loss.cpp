#include "keel/objective/value_loss.h"

#include <ATen/ATen.h>

namespace keel {

ValueLoss value_loss(const Tensor& values, const Tensor& old_values, const Tensor& returns, double clip) {
  const Tensor clipped_values = at::clamp(values, old_values - clip, old_values + clip);
  const Tensor error = values - returns, unclipped_loss = error.square(),
               clipped_loss = (clipped_values - returns).square();
  const Tensor clipped = clipped_loss > unclipped_loss;
  return {at::maximum(unclipped_loss, clipped_loss) / 2, error.masked_fill(clipped, 0), clipped};
}

}  // namespace keel
