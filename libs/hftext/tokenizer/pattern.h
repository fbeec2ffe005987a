#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "keel/core/json.h"
#include "libs/hftext/regex/regex.h"

namespace keel::text {

/// A part of a text: a match, or the text between matches.
struct Span {
  size_t begin = 0, end = 0;
  bool match = false;
};

/// The search pattern of a component: a string, a regular expression, or characters with a property. An empty string or
/// expression matches before every character and at the end.
class Pattern {
 public:
  using Predicate = bool (*)(char32_t);

  explicit Pattern(std::string literal) : matcher_(std::move(literal)) {}
  explicit Pattern(Regex regex) : matcher_(std::move(regex)) {}
  explicit Pattern(Predicate predicate) : matcher_(predicate) {}

  /// {"String": "..."} or {"Regex": "..."}; `location` names it in errors.
  static Pattern from_json(const Json& pattern, const std::string& location);

  /// Splits `text` into matches and the parts between them. The budget belongs to the whole text being encoded.
  void split(std::string_view text, std::vector<Span>& spans, RegexBudget& budget) const;

 private:
  template <class Find>
  static void split_by(std::string_view text, std::vector<Span>& spans, const Find& find);

  std::variant<std::string, Regex, Predicate> matcher_;
};

/// The size of the text if each match becomes `replacement_size` bytes.
size_t replaced_size(const std::vector<Span>& spans, size_t replacement_size);

/// Treatment of matches when a text is split.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Merges or removes spans in place as `behavior` says; `invert` swaps matches and non-matches.
void apply_behavior(std::vector<Span>& spans, SplitBehavior behavior, bool invert);

}  // namespace keel::text
