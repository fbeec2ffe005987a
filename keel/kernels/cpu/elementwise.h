#pragma once

#include <cstdint>

// The small operations between the matrix products, each in one pass over memory. Rows are independent, so a caller may
// split them over threads; results do not depend on the split.

namespace keel::cpu {

/// y = x * scale * weight per row, scale = 1 / sqrt(mean(x^2) + eps) is kept for the backward pass.
/// x, y [rows, width], weight [width], scale [rows].
void rms_norm_forward(const float* x, const float* weight, int64_t rows, int64_t width, float eps, float* y,
                      float* scale);

/// dx [rows, width]; adds the rows' contribution to dweight [width].
void rms_norm_backward(const float* x, const float* weight, const float* scale, const float* dy, int64_t rows,
                       int64_t width, float* dx, float* dweight);

/// out = silu(gate) * up, all [count].
void swiglu_forward(const float* gate, const float* up, int64_t count, float* out);
void swiglu_backward(const float* gate, const float* up, const float* dout, int64_t count, float* dgate, float* dup);

/// Turns the two halves of every head against each other by the row's angles: x, y [rows, heads, width], cos, sin
/// [rows, width / 2]. `direction` is 1, or -1 for the backward pass.
void rotate_heads(const float* x, const float* cos, const float* sin, int64_t rows, int64_t heads, int64_t width,
                  float direction, float* y);

}  // namespace keel::cpu
