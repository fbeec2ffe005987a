#pragma once

#include <cstdint>

// GEMM y = x W^T with a packed weight, which reaches memory bandwidth for few rows, too. The weight is packed into
// panels of kPanel outputs; a step of the inner loop reads one row of a panel. Every output is one chain of
// multiply-adds over the inputs in order, so its bits do not depend on other rows or on the threads.

namespace keel::cpu {

constexpr int64_t kPanel = 32;

constexpr int64_t panel_count(int64_t outputs) { return (outputs + kPanel - 1) / kPanel; }

/// Packs up to kPanel rows of the weight into one panel [inputs, kPanel], padded with zeros.
void pack_panel(const float* const* rows, int64_t outputs, int64_t inputs, float* panel);

/// Computes the outputs of the panels [first, first + count) of y [rows, outputs] = x [rows, inputs] W^T.
void packed_gemm(const float* x, int64_t rows, int64_t inputs, const float* packed, int64_t outputs, int64_t first,
                 int64_t count, float* y);

}  // namespace keel::cpu
