#pragma once

#include <cstdint>

#include "keel/kernels/dropout.h"
#include "keel/kernels/float_type.h"

// Fused layer kernels. They read and write `type`, sum in float32, and round intermediate results as separate operators
// would. Strides are between rows, in elements; rows without a stride are contiguous. All pointers are device pointers.
// The functions return a CUDA error code or 0.

namespace keel::cuda {

/// y = x / sqrt(mean x^2 + eps) * weight for rows [rows, width]. Unless `added` is null, x + added replaces x and is
/// written to `sum`.
int rms_norm_rows(const void* x, const void* added, const void* weight, FloatType type, int64_t rows, int64_t width,
                  float eps, void* sum, void* y, void* stream);

/// y = gate sigmoid(gate) up for rows [rows, width].
int swiglu_rows(const void* gate, int64_t gate_stride, const void* up, int64_t up_stride, FloatType type, int64_t rows,
                int64_t width, void* y, void* stream);

/// cos and sin [rows, half] of position times frequency, times `factor`.
int rotary_angles(const int64_t* positions, const float* frequencies, int64_t rows, int64_t half, float factor,
                  float* cos, float* sin, void* stream);

/// Rotary embedding: rotates the two halves of heads [rows, heads, width] by their row's float32 angles [rows, width /
/// 2]. `direction` is 1, or -1 for the gradient.
int rotate_heads(const void* x, int64_t stride, const float* cos, const float* sin, float direction, FloatType type,
                 int64_t rows, int64_t heads, int64_t width, void* y, void* stream);

/// y = x times the dropout factors of each row's token; x, y [rows, width], sequences and positions [rows].
int dropout(const void* x, FloatType type, const int64_t* sequences, const int64_t* positions, int64_t rows,
            int64_t width, const DropoutNoise& noise, void* y, void* stream);

// Gradients. Their order of summation is fixed.

/// Number of partial sums of a norm's weight gradient.
int64_t norm_gradient_parts(int64_t rows);

/// Gradients of y = x / sqrt(mean x^2 + eps) * weight. `dsum` (or null) is another gradient of x, which is added to dx.
/// dweight [norm_gradient_parts, width] float32 (or null) gets partial sums of the weight's gradient.
int rms_norm_gradients(const void* x, const void* weight, const void* dy, const void* dsum, FloatType type,
                       int64_t rows, int64_t width, float eps, void* dx, float* dweight, void* stream);

/// Gradients of y = gate sigmoid(gate) up.
int swiglu_gradients(const void* gate, int64_t gate_stride, const void* up, int64_t up_stride, const void* dy,
                     FloatType type, int64_t rows, int64_t width, void* dgate, void* dup, void* stream);

}  // namespace keel::cuda
