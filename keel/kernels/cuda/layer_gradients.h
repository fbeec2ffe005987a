#pragma once

#include <cstdint>

#include "keel/kernels/float_type.h"

// The gradients of keel/kernels/cuda/layers.h: what is said there holds here too. Nothing is added up in an order that
// could change.

namespace keel::cuda {

/// In how many parts the gradient of a norm's weight is added up.
int64_t norm_gradient_parts(int64_t rows);

/// Of y = x / sqrt(mean x^2 + eps) * weight: dx, to which `dsum` is added, what reaches x by another way (or null), and
/// the weight's gradient in parts, dweight [norm_gradient_parts, width] float32 (or null: it is not wanted).
int rms_norm_gradients(const void* x, const void* weight, const void* dy, const void* dsum, FloatType type,
                       int64_t rows, int64_t width, float eps, void* dx, float* dweight, void* stream);

/// Of y = gate sigmoid(gate) up.
int swiglu_gradients(const void* gate, int64_t gate_stride, const void* up, int64_t up_stride, const void* dy,
                     FloatType type, int64_t rows, int64_t width, void* dgate, void* dup, void* stream);

}  // namespace keel::cuda
