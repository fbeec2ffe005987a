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
  // Three rows of the usual table: row i needs i - 1, and a swap of neighbours looks back to i - 2.
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
  constexpr size_t kSlips = 2;
  const std::string written = normalized(name), meant = normalized(known);
  const bool cut_short = meant.starts_with(written) && meant.find_first_of("_.", written.size()) == std::string::npos;
  return cut_short || edit_distance(written, meant) <= kSlips;
}

std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& known) {
  const std::string wanted = normalized(name);
  // A word for a thing is nearer to it than a word that only looks alike: a GPU is no CPU.
  const auto is_cuda = [](const std::string& candidate) { return candidate == "cuda"; };
  if (wanted == "gpu" && std::any_of(known.begin(), known.end(), is_cuda)) return "cuda";
  // The beginning of a name is that name, cut short: --temp, dppo.
  constexpr size_t kTelling = 4;
  const auto begins = [&](const std::string& candidate) { return normalized(candidate).starts_with(wanted); };
  const auto exact = [&](const std::string& candidate) { return normalized(candidate) == wanted; };
  if (const auto same = std::find_if(known.begin(), known.end(), exact); same != known.end()) return *same;
  const size_t last_part = wanted.size() - (wanted.find_last_of('.') + 1);  // npos + 1 is 0: no dot, all of it
  if (const auto whole = std::find_if(known.begin(), known.end(), begins);
      last_part >= kTelling && whole != known.end())
    return *whole;
  size_t limit = std::max<size_t>(1, last_part / 3) + 1;  // the first distance that is too far
  std::optional<std::string> best;
  for (const std::string& candidate : known) {
    const size_t longer = std::max(candidate.size(), wanted.size()),
                 shorter = std::min(candidate.size(), wanted.size());
    if (longer - shorter >= limit) continue;
    const size_t distance = edit_distance(wanted, normalized(candidate));
    if (distance >= limit) continue;
    best = candidate;
    limit = distance;
  }
  return best;
}

}  // namespace keel
