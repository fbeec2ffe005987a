#pragma once

#include <cstdint>

#include "keel/kernels/activation.h"
#include "keel/kernels/dropout.h"

// Fused element-wise operations between GEMMs. Rows are independent: a caller may split them over threads, and the
// results do not depend on the split.

namespace keel::cpu {

/// cos and sin [rows, half] of position times frequency, times the factor.
void rotary_angles(const int64_t* positions, const float* frequencies, int64_t rows, int64_t half, float factor,
                   float* cos, float* sin);

/// y = x * scale * weight per row. scale = 1 / sqrt(mean(x^2) + eps) is saved for the backward pass.
/// x, y [rows, width], weight [width], scale [rows].
void rms_norm_forward(const float* x, const float* weight, int64_t rows, int64_t width, float eps, float* y,
                      float* scale);

/// Writes dx [rows, width], and adds the rows' gradient to dweight [width] unless it is null.
void rms_norm_backward(const float* x, const float* weight, const float* scale, const float* dy, int64_t rows,
                       int64_t width, float* dx, float* dweight);

/// out = activation(gate) * up, all [count].
void gated_forward(Activation activation, const float* gate, const float* up, int64_t count, float* out);
void gated_backward(Activation activation, const float* gate, const float* up, const float* dout, int64_t count,
                    float* dgate, float* dup);

/// Rotary embedding: rotates the two halves of each head by the row's angles. x, y [rows, heads, width], cos, sin
/// [rows, width / 2]. `stride` is the distance between rows of x. `direction` is 1, or -1 for the backward pass.
void rotate_heads(const float* x, int64_t stride, const float* cos, const float* sin, int64_t rows, int64_t heads,
                  int64_t width, float direction, float* y);

/// y = x times the dropout factors of each row's token; x, y [rows, width], sequences and positions [rows].
void dropout(const float* x, const int64_t* sequences, const int64_t* positions, int64_t rows, int64_t width,
             const DropoutNoise& noise, float* y);

}  // namespace keel::cpu
