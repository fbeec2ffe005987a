#pragma once

#include <cstddef>
#include <cstdint>

namespace keel {

/// Resource limits of one rendering; exceeding one is an Error. Templates come with downloaded models and are
/// untrusted. Real templates stay far below these limits.
struct TemplateLimits {
  int64_t steps = 20'000'000;               // expressions and statements evaluated, items visited
  int depth = 800;                          // nested evaluations: macros that call themselves, values inside values
  size_t output_bytes = size_t{16} << 20;   // of the rendered text and of every intermediate string
  size_t memory_bytes = size_t{256} << 20;  // of all values alive at a time
};

/// Maximum template size, and maximum nesting of expressions and blocks.
inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;
inline constexpr int kMaxTemplateNesting = 150;
/// Maximum number of variables of a template or macro, parameters of a macro, and named arguments of a call.
inline constexpr size_t kMaxNames = 500;

}  // namespace keel
