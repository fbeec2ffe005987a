#pragma once

#include <cstddef>
#include <cstdint>

namespace keel {

/// What one rendering of a chat template may use; beyond it an Error. Templates come with downloaded models, so that
/// they are not to be trusted; no real one comes near these numbers.
struct TemplateLimits {
  int64_t steps = 20'000'000;               // expressions and statements evaluated, items visited
  int depth = 800;                          // nested evaluations: macros that call themselves, values inside values
  size_t output_bytes = size_t{16} << 20;   // of the rendered text, and of every text on the way to it
  size_t memory_bytes = size_t{256} << 20;  // of all values alive at a time
};

/// The longest template that is read, and how deep its expressions and blocks may be nested.
inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;
inline constexpr int kMaxTemplateNesting = 150;
/// Variables of a template or macro, parameters of a macro, named arguments of a call.
inline constexpr size_t kMaxNames = 500;

}  // namespace keel
