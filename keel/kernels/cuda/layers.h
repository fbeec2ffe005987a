#pragma once

#include <cstdint>

#include "keel/kernels/dropout.h"
#include "keel/kernels/float_type.h"

// Rows of a layer, one kernel each; what they read and write is of `type`, sums are in float32, and what a chain of
// operators would round on the way is rounded here too. Strides are from row to row, in numbers; rows without one
// follow each other. All pointers are the device's; what is returned is a CUDA error code, 0 for none.

namespace keel::cuda {

/// y = x / sqrt(mean x^2 + eps) * weight for rows [rows, width]; the weight is of the same type. With `added` x is
/// sum = x + added, which is written too.
int rms_norm_rows(const void* x, const void* added, const void* weight, FloatType type, int64_t rows, int64_t width,
                  float eps, void* sum, void* y, void* stream);

/// y = gate sigmoid(gate) up for rows [rows, width].
int swiglu_rows(const void* gate, int64_t gate_stride, const void* up, int64_t up_stride, FloatType type, int64_t rows,
                int64_t width, void* y, void* stream);

/// cos and sin [rows, half] of the positions' angles, times the factor.
int angles(const int64_t* positions, const float* frequencies, int64_t rows, int64_t half, float factor, float* cos,
           float* sin, void* stream);

/// Heads [rows, heads, width] turned by the angles [rows, width / 2] of their rows, float32: the first half of a head
/// is turned with the second. `direction` is 1, or -1 for the gradients.
int rotate_heads(const void* x, int64_t stride, const float* cos, const float* sin, float direction, FloatType type,
                 int64_t rows, int64_t heads, int64_t width, void* y, void* stream);

/// y = x times the factors of each row's token; x, y [rows, width], sequences and positions [rows].
int dropout(const void* x, FloatType type, const int64_t* sequences, const int64_t* positions, int64_t rows,
            int64_t width, const DropoutNoise& noise, void* y, void* stream);

// The gradients. Nothing is added up in an order that could change.

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
