#include "keel/ops/dropout.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "keel/kernels/cpu/elementwise.h"
#include "keel/kernels/cuda/layers.h"
#include "keel/ops/parallel_rows.h"

namespace keel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

DropoutNoise make_noise(const Dropout& dropout) {
  const double threshold = std::min(std::round(dropout.probability * 0x1p32), 0x1p32 - 1);
  return {.seed = dropout.seed,
          .pass = (dropout.update << kDropoutLayerBits | dropout.linear_layer) << kDropoutSequenceBits,
          .threshold = static_cast<unsigned int>(threshold),
          .scale = static_cast<float>(1 / (1 - dropout.probability))};
}

/// Multiplies x by the dropout mask. The backward pass applies the same mask to the gradient.
Tensor apply_mask(const Tensor& x, const Dropout& dropout) {
  const DropoutNoise noise = make_noise(dropout);
  const int64_t* const sequences = dropout.sequences.const_data_ptr<int64_t>();
  const int64_t* const positions = dropout.positions.const_data_ptr<int64_t>();
  if (x.is_cpu() && x.scalar_type() != at::kFloat) return apply_mask(x.to(at::kFloat), dropout).to(x.scalar_type());
  const Tensor rows = x.contiguous();
  Tensor y = at::empty_like(rows);
  const int64_t width = rows.size(1);
  run_row_kernel(
      rows, "dropout",
      [&](auto stream) {
        return cuda::dropout(rows.const_data_ptr(), float_type(rows), sequences, positions, rows.size(0), width, noise,
                             y.mutable_data_ptr(), stream);
      },
      [&](int64_t begin, int64_t count) {
        cpu::dropout(rows.const_data_ptr<float>() + begin * width, sequences + begin, positions + begin, count, width,
                     noise, y.mutable_data_ptr<float>() + begin * width);
      });
  return y;
}

struct ApplyDropout : torch::autograd::Function<ApplyDropout> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Dropout& dropout) {
    context->save_for_backward({dropout.sequences, dropout.positions});
    context->saved_data["probability"] = dropout.probability;
    context->saved_data["seed"] = static_cast<int64_t>(dropout.seed);
    context->saved_data["update"] = static_cast<int64_t>(dropout.update);
    context->saved_data["layer"] = static_cast<int64_t>(dropout.linear_layer);
    return apply_mask(x, dropout);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto saved_int = [&](const char* name) { return static_cast<uint64_t>(context->saved_data[name].toInt()); };
    const Dropout dropout{.probability = context->saved_data["probability"].toDouble(),
                          .seed = saved_int("seed"),
                          .update = saved_int("update"),
                          .linear_layer = saved_int("layer"),
                          .sequences = saved[0],
                          .positions = saved[1]};
    return {apply_mask(gradients[0], dropout), Tensor()};
  }
};

}  // namespace

Tensor apply_dropout(const Tensor& x, const Dropout& dropout) { return ApplyDropout::apply(x, dropout); }

}  // namespace keel
