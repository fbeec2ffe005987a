#include "keel/kernels/cpu/panel_product.h"

#include <algorithm>

#include "keel/kernels/cpu/lanes.h"

namespace keel::cpu {
namespace {

constexpr int64_t kDepth = 512;       // inputs at a time: this part of a panel stays in the cache while the rows pass
constexpr int64_t kRowsAtOnce = 240;  // a multiple of every tile's rows

/// `Rows` rows times `Vectors` vectors of a panel's columns, kept in registers over `depth` inputs.
template <int Width, int Rows, int Vectors>
KEEL_INLINE void multiply_tile(const float* x, int64_t x_step, const float* panel, int64_t depth, bool goes_on,
                               float* y, int64_t y_step) {
  using Vector = typename Lanes<Width>::Vector;
  using InMemory = typename Lanes<Width>::InMemory;
  Vector sum[Rows][Vectors] = {};
  if (goes_on)
    for (int row = 0; row < Rows; ++row)
      for (int v = 0; v < Vectors; ++v) sum[row][v] = *reinterpret_cast<InMemory*>(y + row * y_step + v * Width);
  for (int64_t k = 0; k < depth; ++k) {
    Vector weight[Vectors];
    for (int v = 0; v < Vectors; ++v)
      weight[v] = *reinterpret_cast<const InMemory*>(panel + k * kPanel + v * Width);
    for (int row = 0; row < Rows; ++row)
      for (int v = 0; v < Vectors; ++v) sum[row][v] += x[row * x_step + k] * weight[v];
  }
  for (int row = 0; row < Rows; ++row)
    for (int v = 0; v < Vectors; ++v) *reinterpret_cast<InMemory*>(y + row * y_step + v * Width) = sum[row][v];
}

/// The rows that are left when whole tiles are done: fewer than Rows.
template <int Width, int Rows, int Vectors>
KEEL_INLINE void multiply_rest(int64_t rows, const float* x, int64_t x_step, const float* panel, int64_t depth,
                               bool goes_on, float* y, int64_t y_step) {
  if constexpr (Rows > 1) {
    if (rows == Rows - 1)
      multiply_tile<Width, Rows - 1, Vectors>(x, x_step, panel, depth, goes_on, y, y_step);
    else
      multiply_rest<Width, Rows - 1, Vectors>(rows, x, x_step, panel, depth, goes_on, y, y_step);
  }
}

/// All rows times one panel, into y [rows, kPanel] with a step between its rows.
template <int Width, int Rows, int Vectors>
KEEL_INLINE void multiply_panel(const float* x, int64_t rows, int64_t inputs, const float* panel, float* y,
                                int64_t y_step) {
  for (int64_t begin = 0; begin < inputs; begin += kDepth) {
    const int64_t depth = std::min(kDepth, inputs - begin);
    for (int64_t column = 0; column < kPanel; column += Width * Vectors) {
      const float* const part = panel + begin * kPanel + column;
      int64_t row = 0;
      for (; row + Rows <= rows; row += Rows)
        multiply_tile<Width, Rows, Vectors>(x + row * inputs + begin, inputs, part, depth, begin > 0,
                                            y + row * y_step + column, y_step);
      if (row < rows)
        multiply_rest<Width, Rows, Vectors>(rows - row, x + row * inputs + begin, inputs, part, depth, begin > 0,
                                            y + row * y_step + column, y_step);
    }
  }
}

/// How much of a product fits the registers: Rows x Vectors sums, the weights beside them.
template <int Width>
struct Tile {
#if defined(__x86_64__)
  static constexpr int kRows = Width == 16 ? 12 : 6, kVectors = 2;
#else
  static constexpr int kRows = 6, kVectors = 4;
#endif
  // Few rows take the whole width of a panel instead, so that there are sums enough to hide how long an addition takes.
  static constexpr int kWhole = kPanel / Width, kFewRows = 2;
};

template <int Width>
KEEL_INLINE void multiply(const float* x, int64_t rows, int64_t inputs, const float* packed, int64_t outputs,
                          int64_t first, int64_t count, float* y) {
  using T = Tile<Width>;
  for (int64_t p = first; p < first + count; ++p) {
    const float* const panel = packed + p * inputs * kPanel;
    const int64_t columns = std::min(kPanel, outputs - p * kPanel);
    float whole[kRowsAtOnce * kPanel];  // of the last panel, where it is wider than what is asked for
    for (int64_t row = 0; row < rows; row += kRowsAtOnce) {
      const int64_t some = std::min(kRowsAtOnce, rows - row);
      float* const to = columns == kPanel ? y + row * outputs + p * kPanel : whole;
      const int64_t step = columns == kPanel ? outputs : kPanel;
      if (some <= T::kFewRows)
        multiply_panel<Width, T::kFewRows, T::kWhole>(x + row * inputs, some, inputs, panel, to, step);
      else
        multiply_panel<Width, T::kRows, T::kVectors>(x + row * inputs, some, inputs, panel, to, step);
      if (columns == kPanel) continue;
      for (int64_t i = 0; i < some; ++i)
        std::copy_n(whole + i * kPanel, columns, y + (row + i) * outputs + p * kPanel);
    }
  }
}

#define KEEL_PRODUCT const float *x, int64_t rows, int64_t inputs, const float *packed, int64_t outputs, \
                     int64_t first, int64_t count, float *y
KEEL_FOR_EACH_WIDTH(multiply, KEEL_PRODUCT, (x, rows, inputs, packed, outputs, first, count, y))

}  // namespace

void pack_panels(const float* weight, int64_t outputs, int64_t inputs, int64_t first, int64_t count, float* packed) {
  for (int64_t p = first; p < first + count; ++p) {
    const int64_t columns = std::min(kPanel, outputs - p * kPanel);
    float* const panel = packed + p * inputs * kPanel;
    if (columns < kPanel) std::fill_n(panel, inputs * kPanel, 0.0f);
    constexpr int64_t kBlock = 16;  // inputs at a time: a line of the cache of each weight row
    for (int64_t begin = 0; begin < inputs; begin += kBlock)
      for (int64_t column = 0; column < columns; ++column)
        for (int64_t k = begin; k < std::min(begin + kBlock, inputs); ++k)
          panel[k * kPanel + column] = weight[(p * kPanel + column) * inputs + k];
  }
}

void multiply_panels(KEEL_PRODUCT) {
  static const auto best = best_multiply();
  best(x, rows, inputs, packed, outputs, first, count, y);
}
#undef KEEL_PRODUCT

}  // namespace keel::cpu
