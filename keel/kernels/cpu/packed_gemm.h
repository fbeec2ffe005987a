#pragma once

#include <cstdint>

// Products with the weights of linear layers, y = x W^T, quick for few rows too, where a library's are far from the
// memory's speed. The weights are kept in panels of kPanel outputs, so that a step of the inner loop is one row of a
// panel. Every output is one chain of multiply-adds over the inputs, in their order: the same bits whatever rows stand
// beside it, however many there are, and whichever thread computes it.

namespace keel::cpu {

constexpr int64_t kPanel = 32;

constexpr int64_t panel_count(int64_t outputs) { return (outputs + kPanel - 1) / kPanel; }

/// One panel [inputs, kPanel] of the weight's rows for these outputs, at most kPanel; those that fill it up are 0.
void pack_panel(const float* const* rows, int64_t outputs, int64_t inputs, float* panel);

/// The outputs of the panels [first, first + count): y [rows, outputs] = x [rows, inputs] times the weight.
void packed_gemm(const float* x, int64_t rows, int64_t inputs, const float* packed, int64_t outputs, int64_t first,
                 int64_t count, float* y);

}  // namespace keel::cpu
