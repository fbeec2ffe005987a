#pragma once

#include <string_view>

#include "keel/core/options/tree_builder.h"

namespace keel {

/// Who wrote a setting decides how its value is read.
enum class WrittenAs {
  kTyped,     // beside a recipe: JSON, or else as Hydra
  kHydra,     // a key=value in a script of verl's
  kArgument,  // a --key value in a script of TRL's
};

/// Reads a value by Hydra's override grammar: lists and mappings without quotes, true, false and null in any case,
/// 1_000, a text in either quotes or in none, references (${a.b}, which stay texts). Keys may be quoted as well, so
/// that JSON's mappings are read; sweeps and functions are refused by name.
void read_setting_value(std::string_view text, WrittenAs written, TreeBuilder& builder);

/// Where the reference (${...}, with those in it) ends that begins there; npos: nowhere.
size_t end_of_reference(std::string_view text, size_t begin);

}  // namespace keel
