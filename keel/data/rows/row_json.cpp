#include "keel/data/rows/row_json.h"

#include "keel/core/json_reader.h"
#include "keel/core/strings.h"
#include "keel/core/untrusted_text.h"
#include "keel/data/rows/bad_row.h"
#include "keel/data/rows/data_format.h"

namespace keel {
namespace {

constexpr const char* kFixForMultilineRow =
    "; expected one object per line, or a list of objects. Fix: write each row on one line; if the file is an object "
    "that "
    "contains the rows, save only the list";

}  // namespace

Json parse_row(std::string_view text, const std::string& place) {
  // Checked first: the JSON library skips a byte order mark, and its messages about bad bytes are long.
  if (text.starts_with(kByteOrderMark)) throw BadRow(place, "a byte order mark inside the file. Fix: remove it");
  if (const auto bad = first_bad_utf8(text))
    throw BadRow(place, "not UTF-8: byte " + std::to_string(*bad + 1) + " of the row. Fix: save the file as UTF-8");
  Json row;
  try {
    row = parse_json(text, {.depth = kDataDepth, .repeated_keys = false, .exact = true, .nul = false});
  } catch (const JsonParseError& error) {
    const std::string_view line = trimmed(text);
    const bool is_multiline = !line.empty() && std::string_view("{[,").find(line.back()) != std::string_view::npos;
    throw BadRow(place, std::string(error.what()) + (is_multiline ? kFixForMultilineRow : ""));
  }
  if (!row.is_object())
    throw BadRow(place, std::string("expected an object, {...}; got ") + row.type_name() +
                            (row.is_array() ? ". Fix: write one object per line" : ""));
  return row;
}

}  // namespace keel
