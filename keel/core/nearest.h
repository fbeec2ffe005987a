#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace keel {

/// Edit distance: insertions, deletions, replacements and swaps of neighbours (Damerau-Levenshtein).
size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the known name that starts with `name`, or else the closest one (the first of equals), or nullopt if none is
/// close. Case and '-' instead of '_' do not count. The length of the last part of a dotted path limits the distance.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& known);

/// Returns whether `name` is a misspelling of `known`: at most two edits, or truncated within the last word. A missing
/// or different word makes it another name (grad_clip, dual_clip; policy, policy_loss_type).
bool is_misspelling_of(std::string_view name, std::string_view known);

}  // namespace keel
