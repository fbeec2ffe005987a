#include "keel/core/nearest.h"

#include <algorithm>

namespace keel {
namespace {

std::string normalized(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return text;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the usual table: row i needs row i - 1, and a swap of neighbours needs row i - 2.
  std::vector<size_t> two_above(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(two_above, above);
    std::swap(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return row[b.size()];
}

bool is_misspelling_of(std::string_view name, std::string_view known) {
  constexpr size_t kMaxEdits = 2;
  const std::string typed = normalized(name), expected = normalized(known);
  const bool is_truncated =
      expected.starts_with(typed) && expected.find_first_of("_.", typed.size()) == std::string::npos;
  return is_truncated || edit_distance(typed, expected) <= kMaxEdits;
}

std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& known) {
  const std::string query = normalized(name);
  // The edit distance would suggest "cpu" for "gpu".
  const auto is_cuda = [](const std::string& candidate) { return candidate == "cuda"; };
  if (query == "gpu" && std::any_of(known.begin(), known.end(), is_cuda)) return "cuda";
  // A prefix of a name is an abbreviation: --temp, dppo.
  constexpr size_t kMinPrefix = 4;
  const auto has_prefix = [&](const std::string& candidate) { return normalized(candidate).starts_with(query); };
  const auto is_equal = [&](const std::string& candidate) { return normalized(candidate) == query; };
  if (const auto exact_match = std::find_if(known.begin(), known.end(), is_equal); exact_match != known.end())
    return *exact_match;
  // npos + 1 is 0: a name without a dot is one part.
  const size_t last_part_size = query.size() - (query.find_last_of('.') + 1);
  if (const auto completed = std::find_if(known.begin(), known.end(), has_prefix);
      last_part_size >= kMinPrefix && completed != known.end())
    return *completed;
  size_t limit = std::max<size_t>(1, last_part_size / 3) + 1;  // the smallest distance that is too large
  std::optional<std::string> best;
  for (const std::string& candidate : known) {
    const size_t longer = std::max(candidate.size(), query.size()), shorter = std::min(candidate.size(), query.size());
    if (longer - shorter >= limit) continue;
    const size_t distance = edit_distance(query, normalized(candidate));
    if (distance >= limit) continue;
    best = candidate;
    limit = distance;
  }
  return best;
}

}  // namespace keel
