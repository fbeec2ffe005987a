#include "libs/hftext/tokenizer/pattern.h"

#include <algorithm>
#include <optional>

#include "libs/hftext/characters/search.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/tokenizer/strict_object.h"

namespace keel::text {

Pattern Pattern::from_json(const Json& pattern, const std::string& location) {
  const StrictObject fields(pattern, location);
  fields.allow_keys({"String", "Regex"});
  if (fields.has("Regex")) return Pattern(Regex::compile(fields.string("Regex"), location));
  return Pattern(fields.string("String"));
}

/// `find(from)` returns the first match at or after `from`. An empty match at the end of the previous match is skipped.
template <class Find>
void Pattern::split_by(std::string_view text, std::vector<Span>& spans, const Find& find) {
  size_t covered = 0, from = 0;
  bool has_match = false;
  while (from <= text.size()) {
    const std::optional<Regex::Match> match = find(from);
    if (!match) break;
    if (match->begin == match->end && has_match && match->end == covered) {
      if (from >= text.size()) break;
      from += code_point_at(text, from).size;
      continue;
    }
    if (match->begin > covered) spans.push_back({covered, match->begin, false});
    spans.push_back({match->begin, match->end, true});
    covered = from = match->end;
    has_match = true;
  }
  if (covered < text.size()) spans.push_back({covered, text.size(), false});
}

void Pattern::split(std::string_view text, std::vector<Span>& spans, RegexBudget& budget) const {
  spans.clear();
  if (text.empty()) return;
  if (const auto* regex = std::get_if<Regex>(&matcher_)) {
    budget.grant(text.size());
    split_by(text, spans, [&](size_t from) { return regex->find(text, from, budget); });
  } else if (const auto* literal = std::get_if<std::string>(&matcher_)) {
    split_by(text, spans, [&](size_t from) -> std::optional<Regex::Match> {
      const size_t begin = text::find(text, *literal, from);
      if (begin == std::string_view::npos) return std::nullopt;
      return Regex::Match{begin, begin + literal->size()};
    });
  } else {
    const Predicate matches = std::get<Predicate>(matcher_);
    size_t covered = 0;
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = code_point_at(text, at);
      if (matches(c.value)) {
        if (at > covered) spans.push_back({covered, at, false});
        spans.push_back({at, at + c.size, true});
        covered = at + c.size;
      }
      at += c.size;
    }
    if (covered < text.size()) spans.push_back({covered, text.size(), false});
  }
}

size_t replaced_size(const std::vector<Span>& spans, size_t replacement_size) {
  size_t size = 0;
  for (const Span& span : spans) size += span.match ? replacement_size : span.end - span.begin;
  return size;
}

void apply_behavior(std::vector<Span>& spans, SplitBehavior behavior, bool invert) {
  if (invert) {
    for (Span& span : spans) span.match = !span.match;
  }
  if (behavior == SplitBehavior::kIsolated) return;
  if (behavior == SplitBehavior::kRemoved) {
    std::erase_if(spans, [](const Span& span) { return span.match; });
    return;
  }
  const bool backwards = behavior == SplitBehavior::kMergedWithNext;
  if (backwards) std::reverse(spans.begin(), spans.end());
  size_t count = 0;
  bool previous_is_match = false;
  for (const Span& span : spans) {
    const bool joins =
        behavior == SplitBehavior::kContiguous ? span.match == previous_is_match : span.match && !previous_is_match;
    previous_is_match = span.match;
    if (joins && count > 0) {
      Span& last = spans[count - 1];
      if (backwards) last.begin = span.begin;
      if (!backwards) last.end = span.end;
    } else {
      spans[count++] = span;
    }
  }
  spans.resize(count);
  if (backwards) std::reverse(spans.begin(), spans.end());
}

}  // namespace keel::text
