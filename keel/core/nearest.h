#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace keel {

/// Smallest number of characters to insert, delete, replace or swap with their neighbour to turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b);

/// The known name that `name` begins, or else the one that it is most likely a slip of (the first of equals), or
/// nothing when none is close. Upper case and '-' for '_' cost nothing; of a dotted path, only the length of the last
/// part says how many slips are plausible.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& known);

/// Whether a name is another one that was mistyped: at most two characters off, or cut short within its last word. A
/// word that is missing, or another one, makes it the name of another thing (grad_clip, dual_clip; policy,
/// policy_loss_type).
bool is_misspelling_of(std::string_view name, std::string_view known);

}  // namespace keel
