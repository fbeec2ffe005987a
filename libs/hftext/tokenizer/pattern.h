#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "keel/core/json.h"
#include "libs/hftext/regex/regex.h"

namespace keel::text {

/// A part of a text, and whether it is what was looked for or what lies between.
struct Span {
  size_t begin = 0, end = 0;
  bool match = false;
};

/// What a component looks for: a string, a regular expression, or characters of a kind. An empty string or expression
/// is found before every character and at the end.
class Pattern {
 public:
  using Predicate = bool (*)(char32_t);

  explicit Pattern(std::string literal) : what_(std::move(literal)) {}
  explicit Pattern(Regex regex) : what_(std::move(regex)) {}
  explicit Pattern(Predicate predicate) : what_(predicate) {}

  /// {"String": "..."} or {"Regex": "..."}; `place` names it in errors.
  static Pattern from_json(const Json& pattern, const std::string& place);

  /// Cuts the whole of `text` into matches and what lies between them; nothing for an empty text. The budget is that of
  /// the text that `text` is a part of.
  void cut(std::string_view text, std::vector<Span>& spans, RegexBudget& budget) const;

 private:
  template <class Find>
  static void cut_by(std::string_view text, std::vector<Span>& spans, const Find& find);

  std::variant<std::string, Regex, Predicate> what_;
};

/// The size of the text when each match becomes `replacement` bytes.
size_t replaced_size(const std::vector<Span>& spans, size_t replacement);

/// What becomes of the matches when a text is split at them.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Turns spans into the pieces that `behavior` leaves, in place; with `invert`, what lies between is what matters.
void apply_behavior(std::vector<Span>& spans, SplitBehavior behavior, bool invert);

}  // namespace keel::text
