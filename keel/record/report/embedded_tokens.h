#pragma once

#include <string>

#include "keel/record/recorded_tokens.h"

namespace keel {

/// Serialises recorded completions as JSON for the page's script, escaped for a <script> element. Columns are base64 of
/// little-endian float32; a column that is constant within completions has one value per completion. Token texts are in
/// a table. keel/record/report/page/records.js reads it.
std::string embedded_tokens(const RecordedTokens& tokens);

}  // namespace keel
