#include "keel/kernels/cpu/packed_gemm.h"

#include <algorithm>

#include "keel/kernels/cpu/lanes.h"

namespace keel::cpu {
namespace {

constexpr int64_t kDepth = 512;   // inputs at a time, so that this part of a panel stays in the cache for all rows
constexpr int64_t kAhead = 2048;  // prefetch distance in elements; hardware prefetchers stop at a page boundary
constexpr int kLine = 16;         // elements per cache line
constexpr int kFewRows = 2;
constexpr int64_t kMaxRows = 240;  // a multiple of every tile's rows

/// `Rows` rows times `Vectors` vectors of a panel's columns, kept in registers over `depth` inputs.
template <int Width, int Rows, int Vectors>
KEEL_INLINE void multiply_tile(const float* x, int64_t x_step, const float* panel, int64_t depth, bool accumulate,
                               float* y, int64_t y_step) {
  using Vector = typename Lanes<Width>::Vector;
  using InMemory = typename Lanes<Width>::InMemory;
  Vector sum[Rows][Vectors] = {};
  if (accumulate)
    for (int row = 0; row < Rows; ++row)
      for (int v = 0; v < Vectors; ++v) sum[row][v] = *reinterpret_cast<InMemory*>(y + row * y_step + v * Width);
  for (int64_t k = 0; k < depth; ++k) {
    Vector weight[Vectors];
    if constexpr (Rows <= kFewRows)  // prefetch, because memory bandwidth is the limit
      for (int v = 0; v < kPanel; v += kLine) __builtin_prefetch(panel + k * kPanel + kAhead + v);
    for (int v = 0; v < Vectors; ++v) weight[v] = *reinterpret_cast<const InMemory*>(panel + k * kPanel + v * Width);
    for (int row = 0; row < Rows; ++row)
      for (int v = 0; v < Vectors; ++v) sum[row][v] += x[row * x_step + k] * weight[v];
  }
  for (int row = 0; row < Rows; ++row)
    for (int v = 0; v < Vectors; ++v) *reinterpret_cast<InMemory*>(y + row * y_step + v * Width) = sum[row][v];
}

/// Multiplies the remaining rows, fewer than Rows.
template <int Width, int Rows, int Vectors>
KEEL_INLINE void multiply_remaining(int64_t rows, const float* x, int64_t x_step, const float* panel, int64_t depth,
                                    bool accumulate, float* y, int64_t y_step) {
  if constexpr (Rows > 1) {
    if (rows == Rows - 1)
      multiply_tile<Width, Rows - 1, Vectors>(x, x_step, panel, depth, accumulate, y, y_step);
    else
      multiply_remaining<Width, Rows - 1, Vectors>(rows, x, x_step, panel, depth, accumulate, y, y_step);
  }
}

/// Multiplies all rows by one panel into y [rows, kPanel]; `y_step` is the distance between rows of y.
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
        multiply_remaining<Width, Rows, Vectors>(rows - row, x + row * inputs + begin, inputs, part, depth, begin > 0,
                                                 y + row * y_step + column, y_step);
    }
  }
}

/// Size of a tile whose sums and weights fit into the registers: kRows x kVectors vectors.
template <int Width>
struct Tile {
#if defined(__x86_64__)
  static constexpr int kRows = Width == 16 ? 12 : 6, kVectors = 2;
#else
  static constexpr int kRows = 6, kVectors = 4;
#endif
  // Few rows use the whole width of a panel, to have enough independent sums to hide the latency of additions.
  static constexpr int kPanelVectors = kPanel / Width;
};

template <int Width>
KEEL_INLINE void multiply(const float* x, int64_t rows, int64_t inputs, const float* packed, int64_t outputs,
                          int64_t first, int64_t count, float* y) {
  using T = Tile<Width>;
  for (int64_t p = first; p < first + count; ++p) {
    const float* const panel = packed + p * inputs * kPanel;
    const int64_t columns = std::min(kPanel, outputs - p * kPanel);
    float padded[kMaxRows * kPanel];  // results of the last panel, if it is padded
    for (int64_t row = 0; row < rows; row += kMaxRows) {
      const int64_t num_rows = std::min(kMaxRows, rows - row);
      float* const to = columns == kPanel ? y + row * outputs + p * kPanel : padded;
      const int64_t step = columns == kPanel ? outputs : kPanel;
      if (num_rows <= kFewRows)
        multiply_panel<Width, kFewRows, T::kPanelVectors>(x + row * inputs, num_rows, inputs, panel, to, step);
      else
        multiply_panel<Width, T::kRows, T::kVectors>(x + row * inputs, num_rows, inputs, panel, to, step);
      if (columns == kPanel) continue;
      for (int64_t i = 0; i < num_rows; ++i)
        std::copy_n(padded + i * kPanel, columns, y + (row + i) * outputs + p * kPanel);
    }
  }
}

/// Treats two vectors as pairs of blocks: the first gets the lower block of each pair, the second the upper.
template <int Width, int Block, size_t... lane>
KEEL_INLINE void exchange_blocks(typename Lanes<Width>::Vector& first, typename Lanes<Width>::Vector& second,
                                 std::index_sequence<lane...>) {
  const typename Lanes<Width>::Vector a = first, b = second;
  first = __builtin_shufflevector(a, b, ((lane & Block) ? lane - Block + Width : lane)...);
  second = __builtin_shufflevector(a, b, ((lane & Block) ? lane + Width : lane + Block)...);
}

/// Transposes in log2(Width) stages: lane l of vector i goes to lane i of vector l.
template <int Width, int Block = 1>
KEEL_INLINE void transpose(typename Lanes<Width>::Vector* square) {
  for (int i = 0; i < Width; ++i)
    if (!(i & Block)) exchange_blocks<Width, Block>(square[i], square[i + Block], std::make_index_sequence<Width>());
  if constexpr (2 * Block < Width) transpose<Width, 2 * Block>(square);
}

template <int Width>
KEEL_INLINE void pack(const float* const* rows, int64_t outputs, int64_t inputs, float* panel) {
  using Vector = typename Lanes<Width>::Vector;
  using InMemory = typename Lanes<Width>::InMemory;
  int64_t k = 0;
  if (outputs == kPanel)
    for (; k + Width <= inputs; k += Width)
      for (int64_t output = 0; output < kPanel; output += Width) {
        Vector square[Width];
        for (int i = 0; i < Width; ++i) square[i] = *reinterpret_cast<const InMemory*>(rows[output + i] + k);
        transpose<Width>(square);
        for (int i = 0; i < Width; ++i) *reinterpret_cast<InMemory*>(panel + (k + i) * kPanel + output) = square[i];
      }
  for (; k < inputs; ++k)
    for (int64_t output = 0; output < kPanel; ++output)
      panel[k * kPanel + output] = output < outputs ? rows[output][k] : 0.0f;
}

#define KEEL_GEMM_PARAMETERS                                                                                        \
  const float *x, int64_t rows, int64_t inputs, const float *packed, int64_t outputs, int64_t first, int64_t count, \
      float *y
#define KEEL_PACK_PARAMETERS const float *const *rows, int64_t outputs, int64_t inputs, float *panel
KEEL_FOR_EACH_WIDTH(multiply, KEEL_GEMM_PARAMETERS, (x, rows, inputs, packed, outputs, first, count, y))
KEEL_FOR_EACH_WIDTH(pack, KEEL_PACK_PARAMETERS, (rows, outputs, inputs, panel))

}  // namespace

void pack_panel(KEEL_PACK_PARAMETERS) {
  static const auto best = best_pack();
  best(rows, outputs, inputs, panel);
}

void packed_gemm(KEEL_GEMM_PARAMETERS) {
  static const auto best = best_multiply();
  best(x, rows, inputs, packed, outputs, first, count, y);
}
#undef KEEL_PACK_PARAMETERS
#undef KEEL_GEMM_PARAMETERS

}  // namespace keel::cpu
