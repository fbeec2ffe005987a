#pragma once

#include <string>
#include <string_view>

namespace keel::text {

/// Translates a regular expression of tokenizer.json from Oniguruma's dialect (Ruby syntax) to an equivalent PCRE2
/// pattern. The two differ in \s, \w and \v, in ^, $ and (?m), in what may follow {n,m}, in nested sets, in property
/// names, and in their Unicode version. Unsupported syntax (back references, named groups, recursion, set intersections
/// ...) is an Error that names it. `location` names the pattern in errors.
std::string to_pcre2(std::string_view pattern, const std::string& location);

/// A PCRE2 set with the word characters of Rust's regex library, which parts of the tokenizers package use.
std::string rust_word_set(bool negated);

}  // namespace keel::text
