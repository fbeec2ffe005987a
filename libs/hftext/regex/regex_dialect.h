#pragma once

#include <string>
#include <string_view>

namespace keel::text {

/// A regular expression of tokenizer.json, written for Oniguruma (Ruby's syntax), as one that PCRE2 matches in the same
/// way. The two differ in \s, \w and \v, in ^, $ and (?m), in what may follow {n,m}, in sets inside of sets, in the
/// names of properties, and in the age of their Unicode tables. What has no translation here (back references, named
/// groups, recursion, intersections of sets ...) is an Error that names it; `place` says where the pattern stands.
std::string to_pcre2(std::string_view pattern, const std::string& place);

/// A set of PCRE2 with the word characters of Rust's regex library, which a few parts of the package use instead.
std::string rust_word_set(bool negated);

}  // namespace keel::text
