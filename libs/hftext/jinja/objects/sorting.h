#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace keel::jinja {

/// Stable merge sort that, unlike std::stable_sort, is safe if `less` is inconsistent (NaN) or throws. Like
/// list.sort(), it calls less(later, earlier).
template <class T, class Less>
void merge_sort(std::vector<T>& items, Less less) {
  std::vector<T> merged;
  merged.reserve(items.size());
  for (size_t width = 1; width < items.size(); width *= 2) {
    merged.clear();
    for (size_t begin = 0; begin < items.size(); begin += 2 * width) {
      size_t left = begin, right = std::min(begin + width, items.size());
      const size_t left_end = right, right_end = std::min(begin + 2 * width, items.size());
      while (left < left_end && right < right_end) {
        const bool take_right = less(items[right], items[left]);
        merged.push_back(items[take_right ? right++ : left++]);
      }
      while (left < left_end) merged.push_back(items[left++]);
      while (right < right_end) merged.push_back(items[right++]);
    }
    items.swap(merged);
  }
}

}  // namespace keel::jinja
