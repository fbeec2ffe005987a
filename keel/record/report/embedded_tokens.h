#pragma once

#include <string>

#include "keel/record/recorded_tokens.h"

namespace keel {

/// The rows of recorded completions as a JSON object for the page's script, safe inside a <script> element: numbers are
/// base64 of little-endian float32 (a column whose values are equal within each completion has one per completion),
/// token texts a table. keel/record/report/records.js reads it.
std::string embedded_tokens(const RecordedTokens& tokens);

}  // namespace keel
